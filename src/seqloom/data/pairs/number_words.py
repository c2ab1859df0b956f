"""Whole numbers below a million in words, by the rules of English, German and French.

    345,201    three hundred forty-five thousand two hundred one
               dreihundertfünfundvierzigtausendzweihunderteins
               trois cent quarante-cinq mille deux cent un

English is American, without "and". German writes one word. French has the hyphens of before 1990 (below a hundred,
not around "et"), and "cents" and "quatre-vingts" take their s only at the end of a number.
"""

LARGEST = 999_999
ENGLISH = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"),
    *("thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"),
)
ENGLISH_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
GERMAN = (
    *("null", "ein", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun", "zehn", "elf", "zwölf"),
    *("dreizehn", "vierzehn", "fünfzehn", "sechzehn", "siebzehn", "achtzehn", "neunzehn"),
)
GERMAN_TENS = ("zwanzig", "dreißig", "vierzig", "fünfzig", "sechzig", "siebzig", "achtzig", "neunzig")
FRENCH = (
    *("zéro", "un", "deux", "trois", "quatre", "cinq", "six", "sept", "huit", "neuf", "dix", "onze", "douze"),
    *("treize", "quatorze", "quinze", "seize", "dix-sept", "dix-huit", "dix-neuf"),
)
FRENCH_TENS = ("vingt", "trente", "quarante", "cinquante", "soixante")


def english(number: int) -> str:
    """The English words of a number from 0 to 999,999."""
    if number < 20:
        return ENGLISH[number]
    if number < 100:
        tens, ones = divmod(number, 10)
        return ENGLISH_TENS[tens - 2] + (f"-{ENGLISH[ones]}" if ones else "")
    size, name = (1000, "thousand") if number >= 1000 else (100, "hundred")
    count, remainder = divmod(number, size)
    return f"{english(count)} {name}" + (f" {english(remainder)}" if remainder else "")


def german(number: int) -> str:
    """The German word of a number from 0 to 999,999: at its end a one is "eins", before other parts "ein"."""
    return _german(number) + ("s" if number % 100 == 1 else "")


def french(number: int) -> str:
    """The French words of a number from 0 to 999,999."""
    thousands, remainder = divmod(number, 1000)
    if not thousands:
        return _french(remainder, last=True)
    prefix = "" if thousands == 1 else f"{_french(thousands, last=False)} "
    return f"{prefix}mille" + (f" {_french(remainder, last=True)}" if remainder else "")


def _german(number: int) -> str:
    """As `german`, with "ein" for a one."""
    if number < 20:
        return GERMAN[number]
    if number < 100:
        tens, ones = divmod(number, 10)
        return (f"{GERMAN[ones]}und" if ones else "") + GERMAN_TENS[tens - 2]
    size, name = (1000, "tausend") if number >= 1000 else (100, "hundert")
    count, remainder = divmod(number, size)
    return _german(count) + name + (_german(remainder) if remainder else "")


def _french(number: int, last: bool) -> str:
    """The words of a number below 1000; `last` unless "mille" follows, before which no plural s is written."""
    hundreds, remainder = divmod(number, 100)
    below_hundred = _french_below_hundred(remainder, last) if remainder or not hundreds else ""
    if not hundreds:
        return below_hundred
    hundred = "cents" if hundreds > 1 and not remainder and last else "cent"
    count = FRENCH[hundreds] if hundreds > 1 else ""
    return " ".join(word for word in (count, hundred, below_hundred) if word)


def _french_below_hundred(number: int, last: bool) -> str:
    if number < 20:
        return FRENCH[number]
    if number > 80:
        return f"quatre-vingt-{FRENCH[number - 80]}"
    if number == 80:
        return "quatre-vingts" if last else "quatre-vingt"
    tens = min(number // 10, 6)  # 70 to 79 are "soixante" and 10 to 19
    ones = number - 10 * tens
    if ones in (1, 11):
        return f"{FRENCH_TENS[tens - 2]} et {FRENCH[ones]}"
    return FRENCH_TENS[tens - 2] + (f"-{FRENCH[ones]}" if ones else "")
