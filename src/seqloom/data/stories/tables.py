"""The grammar of the stories: the plot, the sentences and the words, each option with its weight.

    <rule>            one option of the rule, drawn by weight
    <var=rule>        the same; the option is bound to the variable var (hero, elder, shine, thing, …)
    <var=rule.form>   the same; the option is written in one of its forms
    {var}, {var.form} the option that is bound to var, in a form; with a capital ({hero.They}) it begins with a capital

Forms: `a` puts a or an in front; `FORMS` adds the pronouns (they, them, their) and how a thief leaves (fled). Whatever
is bound, no text of one option of a rule is a prefix of a text of another option, so that a text has one derivation; a
test checks every pair. The sentences were written for this package.
"""

PLOT = {
    "story": "1 <opening> <gift> <tale>",
    "tale": """1 <fondness> <trouble>
        3 <trouble>""",
    "trouble": """3 <loss> <quest> <clue> <find> <ending>
        2 <theft> <quest> <tip> <rescue> <ending>""",
    "quest": """1 <sorrow> <departure> <way>
        2 <departure> <way>""",
    "way": """1 <road> <meeting> <kindness>
        3 <meeting> <kindness>""",
    "clue": """1 <question> <answer>
        3 <answer>""",
    "ending": """3 <thanks> <close>
        3 <homecoming> <close>
        4 <close>""",
}

SENTENCES = {
    "opening": """5 Once upon a time <trait> <child> lived <near>.
        3 Long ago there was <trait> <child> who lived <near>.
        3 In <size> <dwelling> <near> there lived <trait> <child>.""",
    "gift": """5 One <season> <hour> {hero.their} <elder=elder> gave {hero.them} <shine=shine.a> <thing=thing>.
        3 On {hero.their} birthday {hero.they} got <shine=shine.a> <thing=thing> from {hero.their} <elder=elder>.
        2 {hero} had one treasure, <shine=shine.a> <thing=thing> from {hero.their} <elder=elder>.""",
    "fondness": """3 {hero} loved the {thing} and kept it <kept>.
        2 {hero.They} <cared> the {shine} {thing} every <hour>.""",
    "loss": """5 But one <weather> <hour> {hero} lost the {thing} <lost>.
        3 Then, on a <weather> <hour>, the {thing} fell out of {hero.their} pocket <lost>.""",
    "theft": """5 But one <weather> night <robber> stole the {thing} and {thief.fled}.
        3 Then <robber> came through the <gap>, took the {thing}, and {thief.fled}.""",
    "sorrow": """4 {hero} sat <seat> and cried.
        3 {hero} was so sad that {hero.they} could not <live>.
        3 "I will find it again," {hero} told {hero.their} {elder}.""",
    "departure": """5 The next <dawn> {hero.they} put some <food=food> in {hero.their} <bag> and set out.
        4 So {hero.they} packed some <food=food> and <tool> and went to look for it.""",
    "road": """4 {hero.They} walked <through> and <over>.
        3 The <sky>, but {hero.they} walked on and on.
        2 For <number> days {hero.they} walked, and at night {hero.they} slept <bed>.""",
    "meeting": """5 <spot> {hero.they} met <looks> <friend=friend> who was <very> <plight=plight>.
        3 There sat <looks> <friend=friend>, all alone and <very> <plight=plight>.""",
    "kindness": """5 {hero} gave the {plight} {friend} <share> {hero.their} {food}.
        3 {hero.They} sat down and shared {hero.their} {food} with the {friend}.
        2 "You may have my {food}," {hero} said to the {friend}.""",
    "question": """3 "Have you seen my {shine} {thing}?" asked {hero}.
        2 "Where can my {shine} {thing} be?" {hero.they} asked.""",
    "answer": """4 "I saw it <hiding=hiding>," said the <good> {friend}.
        3 "Your {thing} is <hiding=hiding>," said the <good> {friend}.
        3 The {friend} <nodded> and told {hero.them} to look <hiding=hiding>.""",
    "tip": """4 "The {thief} sleeps <hiding=hiding>," said the <good> {friend}.
        3 "I saw the {thief} <hiding=hiding>," said the <good> {friend}.
        3 The {friend} <nodded> and said that the {thief} lived <hiding=hiding>.""",
    "find": """4 They looked {hiding}, and there was the {shine} {thing}.
        3 Before <dusk> {hero.they} found the {shine} {thing} {hiding}.
        3 Together they searched {hiding} until {hero} found the {thing}.""",
    "rescue": """4 The {thief} was <asleep> {hiding}, so {hero} took the {thing} and ran.
        3 The {friend} <scared> the {thief} {hiding}, and it dropped the {thing}.
        3 {hero.They} went there before <dusk> and took the {shine} {thing} from the {thief}.""",
    "thanks": """3 "Thank you, <dear> {friend}," said {hero}.
        2 {hero} hugged the {friend} and <danced> for joy.""",
    "homecoming": """3 Then {hero.they} ran home and showed the {thing} to {hero.their} {elder}.
        2 At home {hero.their} {elder} made <dish> for {hero} and the {friend}.""",
    "close": """4 From that day on {hero} and the {friend} were <close_as> friends.
        3 And every <eve> {hero} and the {friend} <played> <place>.
        2 And {hero.they} never lost the {shine} {thing} again.
        2 So {hero} learned that a <close_as> friend is better than {shine.a} {thing}.""",
}

WORDS = {
    "trait": "6 a little, 5 a brave, 4 a kind, 3 a clever, 2 a poor, 2 a cheerful, 1 an honest, 1 a shy",
    "child": "1 girl named <hero=girl>, 1 boy named <hero=boy>",
    "girl": "6 Mina, 5 Lily, 4 Rosa, 3 Anna, 3 Clara, 2 Greta, 2 Elsa, 1 Wren",
    "boy": "6 Tom, 5 Hans, 4 Otto, 3 Finn, 3 Peter, 2 Jack, 2 Oscar, 1 Emil",
    "size": "4 a small, 4 an old, 3 a quiet, 2 a crooked, 1 a tiny",
    "dwelling": "5 house, 4 cottage, 3 mill, 2 village, 1 tower",
    "near": "5 near the sea, 4 by the river, 3 beside a blue lake, 2 behind the hills, 2 far from the city",
    "season": "4 sunny, 4 spring, 3 summer, 2 winter, 1 autumn",
    "hour": "5 morning, 3 evening, 3 day, 1 afternoon",
    "elder": "6 grandmother, 4 grandfather, 3 mother, 3 father, 2 aunt, 1 uncle",
    "shine": "6 golden, 5 silver, 4 red, 3 blue, 2 old, 2 tiny, 1 wooden",
    "thing": "6 bell, 5 key, 4 ring, 4 lamp, 3 cup, 3 flute, 2 mirror, 1 button",
    "kept": "3 under {hero.their} pillow, 3 in {hero.their} pocket, 2 beside {hero.their} bed, 1 by the window",
    "cared": "3 polished, 2 admired, 1 washed, 1 kissed",
    "weather": "5 windy, 4 rainy, 3 foggy, 2 snowy, 2 stormy, 1 dark",
    "lost": "5 in the forest, 4 in the tall grass, 3 at the market, 2 by the well, 2 on the road, 1 at the fair",
    "robber": "1 <bad> <thief=bird>, 1 <bad> <thief=beast>",
    "bad": "5 a greedy, 4 a sly, 3 a wicked, 1 an angry",
    "bird": "3 crow, 2 magpie, 1 hawk",
    "beast": "3 fox, 2 goblin, 1 rat",
    "gap": "4 window, 3 door, 1 chimney",
    "seat": "4 by the fire, 3 on the stairs, 2 under a tree, 1 in the kitchen",
    "live": "4 sleep, 3 eat, 2 sing, 1 smile",
    "dawn": "5 morning, 3 day, 1 week",
    "food": "6 bread, 5 cheese, 4 honey, 3 apples, 3 nuts, 2 cake, 1 berries",
    "bag": "4 bag, 3 basket, 2 sack, 1 hat",
    "tool": "4 a lantern, 3 a rope, 2 a warm coat, 1 an umbrella",
    "through": "4 through the woods, 3 across the fields, 2 along the shore, 1 past the castle",
    "over": "4 over the hills, 3 up the mountain, 2 down the valley, 1 into the fog",
    "sky": "4 wind was cold, 3 road was long, 3 night was dark, 2 sun was hot, 1 snow was deep",
    "number": "4 three, 3 two, 2 seven, 1 nine",
    "bed": "4 under the stars, 3 in the hay, 2 on soft moss, 1 in a barn",
    "spot": "5 Beside a pond, 4 At the crossroads, 3 Near an old well, 3 Under an oak tree, 2 In a meadow, 1 On a rock",
    "looks": "5 a small, 4 an old, 3 a gray, 3 a white, 2 a round, 1 a funny",
    "friend": "5 owl, 4 hare, 3 bear, 3 frog, 3 mouse, 2 duck, 2 hedgehog, 1 turtle",
    "very": "4 very, 2 rather, 2 quite",
    "plight": "5 hungry, 4 tired, 3 cold, 2 lonely, 1 weak",
    "share": "4 some of, 3 half of, 2 all of, 1 the last of",
    "good": "4 good, 3 wise, 2 happy, 2 grateful",
    "nodded": "4 smiled, 3 nodded, 2 bowed, 1 laughed",
    "hiding": "5 under the bridge, 4 behind the waterfall, 3 in the dark cave, 3 inside the hollow tree, "
    "2 among the reeds, 1 on top of the hill",
    "dusk": "4 sunset, 3 midnight, 2 noon, 1 dinner",
    "asleep": "4 asleep, 3 snoring, 1 dreaming",
    "scared": "4 tricked, 3 surprised, 2 tickled",
    "dear": "4 dear, 3 good, 2 sweet",
    "danced": "4 danced, 3 laughed, 2 sang, 1 jumped",
    "dish": "4 hot soup, 3 a big pie, 2 a sweet pudding, 1 pancakes",
    "close_as": "4 good, 3 true, 2 dear",
    "eve": "4 evening, 3 summer, 2 Sunday, 1 winter",
    "played": "4 danced, 3 sang songs, 2 told stories, 1 drank tea",
    "place": "4 by the fire, 3 in the garden, 2 under the moon, 1 on the roof",
}

FORMS = {
    "girl": {"they": "she", "them": "her", "their": "her"},
    "boy": {"they": "he", "them": "him", "their": "his"},
    "bird": {"fled": "flew away"},
    "beast": {"fled": "ran away"},
}
