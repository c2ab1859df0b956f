"""What `make test` leaves to `make test-all`, to stay quick: whole tests, and of a table all but one case in n.

Which cases stay follows from a hash of their ids: every n-th case would always be of the same backend or form. Promises
of the contract are not here: each is checked for every mixer, under its first example, in `make test`.
"""

from collections.abc import Iterable
from hashlib import sha256
from typing import Any, NamedTuple, TypeAlias

import pytest

EVERY = {
    "analysis/test_cost.py::test_model_cost_is_the_count": 6,
    "analysis/test_cost.py::test_step_executes_the_price_of_its_token": 4,
    "analysis/test_match.py::test_every_pair_executes_as_many_multiplications": 24,
    "analysis/test_match.py::test_every_pair_holds_as_many_parameters": 12,
    "analysis/test_match.py::test_matched_with_itself_nothing_changes": 6,
    "analysis/test_match.py::test_whole_rwkv_is_matched_both_ways": 2,
    "analysis/test_reach.py::test_nothing_ahead_is_read_and_something_behind_is": 4,
    "analysis/test_slopes.py::test_memory_grows_as_documented": 3,
    "analysis/test_slopes.py::test_priced_quantities_grow_as_documented": 3,
    "analysis/test_tables.py::test_tables_are_the_prices": 3,
    "analysis/test_whole.py::test_a_step_is_the_count_at_every_position": 6,
    "analysis/test_whole.py::test_layers_built_once_have_the_price_of_the_model": 6,
    "analysis/test_whole.py::test_prefill_is_the_count": 6,
    "analysis/test_whole.py::test_training_is_the_count": 6,
    "cli/test_bad_studies.py::test_a_cell_that_fails": 3,
    "cli/test_bad_studies.py::test_a_folder_of_another_study": 3,
    "cli/test_checked.py::test_a_mixers_settings": 6,
    "cli/test_cost_command.py::test_the_cost_of_a_mixer": 8,
    "cli/test_cost_command.py::test_the_table_is_sorted_by_a_column": 3,
    "cli/test_hostile_input.py::test_a_setting_of_a_mixer": 3,
    "cli/test_hostile_input.py::test_an_option_of_a_number": 3,
    "studies/exits/test_command.py::test_chosen_layers": 3,
    "core/test_statistics.py::test_coverage_and_false_claims_of_2000_tables": 2,
    "data/test_hidden_markov.py::test_each_letter_is_a_token": 2,
    "depth/test_depth_adaptive.py::test_a_text_by_a_classifier": 5,
    "depth/test_depth_adaptive.py::test_they_learn": 3,
    "evaluation/test_scores.py::test_every_token_once": 4,
    "evaluation/test_scores.py::test_overlapping_windows": 4,
    "studies/test_decoding.py::test_a_filled_state_equals_one_that_read_the_tokens": 4,
    "studies/recall/test_study.py::test_a_signal_stops_it_and_it_goes_on": 2,
    "generation/test_drafting.py::test_windows_that_slide": 6,
    "generation/test_drafting.py::test_without_chance_it_writes_what_the_large_model_writes": 8,
    "generation/test_generation_modes.py::test_slide_is_the_model_on_the_last_tokens": 4,
    "generation/test_generation_modes.py::test_slide_with_a_hop_is_its_definition": 4,
    "generation/test_generation_modes.py::test_stream_is_one_reading_of_the_whole_text": 4,
    "generation/test_generation_price.py::test_the_price_is_what_is_spent": 8,
    "hf/test_causal_lm.py::test_a_saved_model_is_loaded_exactly": 6,
    "hf/test_causal_lm.py::test_a_text_continues_from_its_cache": 6,
    "hf/test_causal_lm.py::test_logits_by_pieces_are_those_of_the_whole": 6,
    "hf/test_causal_lm.py::test_padding_on_the_left_changes_no_token": 6,
    "hf/test_causal_lm.py::test_the_cache_changes_no_token": 18,
    "mixers/test_compressive.py::test_pieces_are_two_queues": 3,
    "mixers/test_fox.py::test_float32_is_the_equation_after_thousands_of_gates": 3,
    "mixers/test_hgrn2.py::test_a_layer_is_its_recurrence": 3,
    "mixers/test_hyena.py::test_a_changed_parameter_is_seen_by_the_next_token": 3,
    "mixers/test_memorizing.py::test_outputs": 5,
    "mixers/test_performer.py::test_it_is_finite_whatever_it_reads": 5,
    "mixers/test_s5.py::test_one_dense_system_of_many_inputs": 5,
    "mixers/test_values.py::test_gradients": 3,
    "models/test_classifier.py::test_around_every_mixer_padding_changes_nothing": 4,
    "models/test_decision.py::test_an_action_depends_on_what_was_before_it_alone": 4,
    "models/test_decision.py::test_an_episode_is_read_step_by_step": 4,
    "models/test_gates.py::test_pieces_and_tokens_are_the_sequence": 3,
    "models/test_length.py::test_sixteen_times_the_length": 4,
    "models/test_options.py::test_the_price_is_the_count": 3,
    "models/test_seq2seq.py::test_any_mixer_encodes": 4,
    "models/test_universal.py::test_pieces_and_steps_are_the_whole": 5,
    "models/test_universal_seq2seq.py::test_a_target_read_in_pieces_and_tokens": 5,
    "ops/test_attention.py::test_derivatives_by_differences": 5,
    "ops/test_biased_average.py::test_a_huge_late_key_moves_no_earlier_output": 5,
    "ops/test_biased_average.py::test_every_backend_is_the_equation": 5,
    "ops/test_delta_rule.py::test_a_strong_decay_leaves_nothing_and_no_nan": 5,
    "ops/test_delta_rule.py::test_derivatives_by_differences": 5,
    "ops/test_delta_rule.py::test_every_backend_is_the_equation": 4,
    "ops/test_delta_rule.py::test_outputs_and_gradients_of_the_reference": 4,
    "ops/test_diagonal_states.py::test_every_backend_has_the_gradients_of_the_reference": 5,
    "ops/test_flex.py::test_it_is_the_dense_mask": 3,
    "ops/test_lag_sum.py::test_every_backend_goes_on_from_the_past": 5,
    "ops/test_lag_sum.py::test_every_backend_has_the_gradients_of_the_reference": 3,
    "ops/test_lag_sum.py::test_every_backend_is_the_equation": 5,
    "ops/test_lag_sum.py::test_how_far_a_later_input_reaches_back": 3,
    "ops/test_lag_sum.py::test_how_far_float32_is_from_the_sum": 3,
    "ops/test_lag_sum_online.py::test_from_any_state": 3,
    "ops/test_lag_sum_online.py::test_the_contract_with_long_blocks": 4,
    "ops/test_lag_sum_online.py::test_token_by_token_is_the_whole": 3,
    "ops/test_lag_sum_window.py::test_rows_that_have_read_differently": 7,
    "ops/test_lag_sum_window.py::test_token_by_token_is_the_whole": 7,
    "ops/test_linear_decay.py::test_a_constant_decay_is_not_off_in_one_direction": 5,
    "ops/test_linear_decay.py::test_a_normaliser_is_the_sum_of_ones": 5,
    "ops/test_linear_decay.py::test_any_cut_gives_the_whole": 5,
    "ops/test_linear_decay.py::test_channels_that_forget_all_hold_their_last_token": 5,
    "ops/test_linear_decay.py::test_derivatives_by_differences": 5,
    "ops/test_linear_decay.py::test_every_backend_is_the_equation": 5,
    "ops/test_linear_decay.py::test_gradients_of_weights_ones_and_what_goes_past": 5,
    "ops/test_linear_decay.py::test_keys_that_heads_share_are_keys_of_each": 5,
    "ops/test_linear_decay.py::test_no_output_depends_on_later_inputs": 5,
    "ops/test_linear_decay.py::test_outputs_and_gradients_of_the_reference": 5,
    "ops/test_linear_decay.py::test_weights_and_what_goes_past_the_sum": 5,
    "ops/test_patterns.py::test_attention_over_tiles": 4,
    "ops/test_patterns.py::test_tiles_are_the_predicate": 5,
    "ops/test_pole_fit.py::test_half_as_many_poles_as_taps_meet_any": 3,
    "ops/test_pole_fit.py::test_no_worse_than_balanced_truncation": 4,
    "ops/test_pole_fit.py::test_sums_of_waves_are_recovered": 4,
    "ops/test_pole_fit.py::test_taps_with_little_information": 3,
    "ops/test_random_features.py::test_the_mean_is_the_kernel": 5,
    "ops/test_recurrence.py::test_values_and_derivatives": 5,
    "ops/test_scans.py::test_derivatives_by_differences": 5,
    "ops/test_scans.py::test_every_backend_has_the_gradients_of_the_reference": 5,
    "ops/test_scans.py::test_every_backend_is_the_equation": 5,
    "ops/test_scans.py::test_long_sequences": 5,
    "ops/test_scans_native.py::test_the_number_of_threads_changes_no_bit": 5,
    "ops/test_selective_scan.py::test_derivatives_by_differences": 3,
    "ops/test_selective_scan.py::test_every_backend_has_the_gradients_of_the_reference": 5,
    "ops/test_selective_scan.py::test_every_backend_is_the_equation": 5,
    "ops/test_state_space.py::test_any_cut_gives_the_whole": 5,
    "ops/test_state_space.py::test_derivatives_by_differences": 3,
    "ops/test_state_space.py::test_outputs_and_gradients_of_the_reference": 4,
    "ops/test_state_space.py::test_single_is_the_recurrence": 5,
    "ops/test_wkv_average.py::test_any_cut_and_any_other_backend_go_on": 5,
    "ops/test_wkv_average.py::test_every_backend_has_the_gradients_of_the_reference": 5,
    "ops/test_wkv_average.py::test_every_backend_is_the_equation": 5,
    "positions/test_each_position.py::test_it_is_priced_as_counted": 6,
    "recordings/test_recordings.py::test_losses_in_float64": 3,
    "report/charts/test_charts.py::test_curves_hold_the_rows_and_are_valid": 4,
    "report/test_many.py::test_prices_are_drawn_at_the_length_that_most_have": 4,
    "retrieval/test_search.py::test_exact_in_blocks": 3,
    "runs/test_state.py::test_a_saved_state_goes_on": 3,
    "test_face.py::test_a_mixer_replaces_attention": 12,
    "test_face.py::test_a_saved_model_comes_back_bit_for_bit": 12,
    "training/test_carried.py::test_compressive_that_is_killed_goes_on_bit_for_bit_with_both_memories": 3,
    "training/test_carried.py::test_within_documents_nothing_is_remembered_of_the_one_before": 5,
    "training/test_distributed.py::test_losses_are_those_of_one_process": 2,
    "training/test_hostile.py::test_it_does_not_go_on": 3,
    "training/test_ngram_runs.py::test_a_run_that_was_killed_goes_on_bit_for_bit": 3,
    "training/test_packed.py::test_every_mixer": 4,
    "training/test_refusals.py::test_another_setting": 3,
    "training/test_spalm_runs.py::test_a_run_that_stopped_goes_on_bit_for_bit": 3,
    "training/test_whole_recipes.py::test_it_is_trained_priced_and_written_with": 4,
}
"""n, by the test: of its cases one in n runs in `make test`, and more where else a pair of `pair` would not run"""

LATER = (
    "analysis/test_match.py::test_no_size_is_nearer",
    "studies/poles/test_study.py::test_evaluate_and_distil_agree",
    "studies/poles/test_study.py::test_the_layers_differ_by_at_most_the_printed_bound",
    "cli/test_doctor.py::test_what_is_installed_and_runs_here",
    "cli/test_lists.py::test_the_price_is_that_of_cost",
    "cli/test_processes.py::test_a_reader_that_leaves",
    "cli/test_processes.py::test_signals_save_and_the_same_command_goes_on",
    "data/test_stories.py::test_stories_do_not_repeat",
    "studies/test_contenders.py::test_sizes_matched_by_time_are_measured_once",
    "studies/markov_gap/test_study.py::test_n_grams_reach_a_chain_of_their_order_and_no_longer_one",
    "studies/paper/test_cells.py::test_attention_of_equal_size",
    "studies/paper/test_command.py::test_an_unfinished_curve_is_marked",
    "studies/paper/test_command.py::test_learning_rates_are_separate_lines",
    "studies/paper/test_command.py::test_matched_attention_is_raced",
    "studies/paper/test_command.py::test_unfinished_cells_are_shown_as_unfinished",
    "studies/recall/test_study.py::test_permutations_are_learned_by_a_state_that_is_replaced",
    "studies/test_recipe_contenders.py::test_models_of_recipes_are_trained_alike",
    "studies/test_summary.py::test_rows_are_the_runs_numbers",
    "mixers/test_modal_extractor.py::test_the_extraction_begins_as_loud_as_its_input",
    "mixers/test_s4d.py::test_sixteen_times_the_length",
    "models/test_dropout.py::test_in_a_graph_it_is_torchs",
    "models/test_handing.py::test_it_compiles",
    "models/test_options.py::test_it_is_one_graph",
    "models/test_rwkv_block.py::test_it_is_one_graph",
    "models/test_sharing.py::test_it_compiles",
    "models/test_textcnn.py::test_it_is_compared_with_a_classifier_of_mixers",
    "models/test_universal_seq2seq.py::test_from_pairs_to_targets",
    "ops/test_autograd.py::test_torch_holds_both_sound",
    "ops/test_lag_sum_native.py::test_compiled_whole_with_its_gradients",
    "ops/test_lag_sum_online.py::test_the_cost_of_a_token_hardly_grows",
    "ops/test_lag_sum_spectral.py::test_as_operators_of_torch",
    "ops/test_scans_native.py::test_compiled_whole_with_its_gradients",
    "ops/test_selective_scan_native.py::test_compiled_whole_with_its_gradients",
    "ops/test_wkv_average_native.py::test_compiled_whole_with_its_gradients",
    "training/test_actor_critic.py::test_a_run_goes_on_with_the_same_bits",
    "training/test_extras.py::test_pieces_of_a_batch_and_compilation_change_nothing",
    "training/test_extras.py::test_they_are_those_of_a_compiled_model",
    "training/test_refusals.py::test_threads_may_drift",
    "training/test_resume.py::test_stopped_from_outside_at_no_chosen_instant",
    "training/test_whole_rwkv.py::test_it_goes_on_bit_for_bit",
)
"""tests of seconds whose subject other tests check in smaller parts"""


Form: TypeAlias = frozenset[tuple[str, Any]]
"""the parameters of a case that are no sizes, by name"""


class Case(NamedTuple):
    """A case of a test, as pytest collects it."""

    id: str
    parameters: dict[str, Any]


class Met(NamedTuple):
    """A backend with a form in a case of a test."""

    file: str
    """of the test"""
    backend: str
    form: Form
    runs: bool
    """in `make test`"""


MET = pytest.StashKey[list[Met]]()
"""where a run of pytest keeps those of all that it has collected"""


def pair(case: Case) -> tuple[str, Form] | None:
    """The backend of a case and its form: its other parameters, but for numbers. None for a test of no backends."""
    backend = case.parameters.get("backend")
    if not isinstance(backend, str):
        return None
    others = {name: value for name, value in case.parameters.items() if name != "backend"}
    form = ((name, value) for name, value in others.items() if isinstance(value, (str, bool)))
    return backend, frozenset(form)


def sampled(cases: Iterable[Case], n: int) -> set[str]:
    """The ids of one case in n, at least one, and of more until each backend meets each of its forms."""
    order = sorted(cases, key=lambda case: sha256(case.id.encode()).digest())
    result = {case.id for case in order[: -(-len(order) // n)]}
    met = {pair(case) for case in order if case.id in result}
    for case in order:
        if pair(case) not in met:
            result.add(case.id)
            met.add(pair(case))
    return result


def never_run(met: Iterable[Met]) -> list[str]:
    """The pairs of a backend and a form that a file has tests of and that none of them in `make test` contains.

    The reference is left out: every test of another backend compares it.
    """
    met = [each for each in met if each.backend != "reference"]
    run = {each[:3] for each in met if each.runs}
    left = {each[:3] for each in met if not any(each[:2] == other[:2] and each.form <= other[2] for other in run)}
    return sorted(f"{file}: {backend} with {dict(sorted(form))}" for file, backend, form in left)
