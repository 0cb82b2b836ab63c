"""Sentences that Python and TypeScript both say, each written once.

``make generated`` writes them to ``web/src/sentences.ts``. A field is a name in braces. Callers format its value: which
sentence is said, and how a number looks, is decided in each language.
"""

# --- budgets, neighbours and bases ----------------------------------------------------------------------------

BUDGET = "ε = {epsilon}, δ = {delta}"
LARGE_EPSILON = (
    "ε = {epsilon} hardly protects anybody: an attacker's odds that a unit is in the data may change by a factor of "
    "e^ε, and e^{weak} is 485 million. 0.1 to 10 is usual"
)
LARGE_DELTA = (
    "δ = {delta} permits a release that reveals one unit in {units} outright. Choose a δ far below 1 / number of "
    "units, such as 1e-9"
)
GUARANTEE = "{budget} for {neighbours}{basis}, by {mechanism}{conditions}"
NEIGHBOURS = "one {unit} of at most {bound} {keys}({relation})"
ONLY_IF = ", only if: {conditions}"

LABEL_L1 = "L1"
LABEL_L2 = "L2"
LABEL_SKETCH_L2 = "L2 of sketches"
LABEL_ONE_COORDINATE = "one coordinate"
CHANGE_L1 = "adding or removing it changes the data by updates whose absolute values sum to at most {bound}"
CHANGE_L2 = "adding or removing it changes the data by a vector with a Euclidean norm of at most {bound}"
CHANGE_SKETCH_L2 = "adding or removing it changes the exact {sketches} by an L2 norm of at most {bound}"
CHANGE_ONE_COORDINATE = "it changes one coordinate by at most {bound}"
ONE_SKETCH = "sketch"
ALL_SKETCHES = "sketches of all keys together"

PROTECTED = "one {unit}{where}: {change}"
IN_EACH_KEY = "in each of at most {keys} keys"
IN_ONE_KEY = "in one key"
IN_KEYS = "in up to {keys} keys"
IN_KEYS_TOGETHER = "in at most {keys} keys together"
WHATEVER_ROWS = ", whatever its rows hold"
IN_THESE_WINDOWS = ", in each of these windows"
KEYS_TOGETHER = "; the guarantee covers the releases of all keys together"
BASIS_ENFORCED = "each contribution was clipped to that bound"
BASIS_ASSERTED = "nothing was clipped to that bound: the releaser asserts that it holds"
BASIS_UNKNOWN = "the release does not say whether that bound was enforced or is asserted"
ENFORCED_WHATEVER_ROWS = "enforced whatever its rows hold"
APART_IN_STREAMS = "is in two of the streams"
PUBLIC_KEYS = "the keys are public"
ALL_HONEST = "all {parties} parties follow the round and keep their keys and shares secret"
SOME_HONEST = "at least {honest} of the {parties} parties follow the round and keep their keys and shares secret"
AT_ONE_PARTY = "one {unit} has data at one party alone, as each party bounds and counts it by itself"
OVER_ALL_PARTIES = (
    "one {unit} keeps to the bound over all parties together, as with data at two parties it counts twice"
)
DELTA_ABOVE_1 = "the δ of these releases add up to {delta}: together they guarantee nothing"

# --- the text of a mechanism ----------------------------------------------------------------------------------

LAPLACE = "discrete Laplace, scale"
GAUSSIAN = "discrete Gaussian, variance"
TWO_LAYERS = ", inside and on release"
ON_INPUT = ", on the input"
AFTER_HADAMARD = ", on what the Hadamard step returns"
SHARES = ", in shares of {parties} parties"
HONEST_SHARES = ", of whom {honest} are honest"
FLIPS = "flips with 1/(exp({rate}{level}) + 1)"
NORM_BOUND = " for norms of at least {bound}"
KEY_THRESHOLD = "Laplace threshold for the keys, ε = {epsilon}, δ = {delta}"
ROWS = "{horizon} windows ({schedule}), a unit in {windows} of them{apart}"
ROWS_APART = ", {gap} apart"
SEPARATE = "each by itself"
TREE = "tree of depth {depth}"
ROOT_BLOCKS = "square root in blocks ({blocks})"
ROOT_BAND = "square root of {windows} windows"
UNIT_COUNT = "a count of units (weight {weight})"
SLACK = " and slack (weight {weight})"
SEVERAL_MECHANISMS = "several mechanisms"

# --- whether the noise is enough ------------------------------------------------------------------------------

LAPLACE_LOSS = "scale {scale} at ℓ1 sensitivity {sensitivity} gives ε = {epsilon}"
GAUSSIAN_LOSS = "variance {variance} at ℓ2 sensitivity {sensitivity} gives ε = {epsilon} at δ = {delta}"
GAUSSIAN_WITHOUT_DELTA = "Gaussian noise gives no ε at δ = 0"
GAUSSIAN_NARROW = "{noise} is narrower than any that the theorem here covers"
ONLY_TEXT = "its mechanism is stated only as text"
NO_SINGLE_NOISE = "its mechanism is not a single noise, so one sensitivity does not apply"
OTHER_NOISE = (
    "the estimates assume another noise than {noise}: the stated cumulants are {stated2} and {stated4}, those of that "
    "noise {used2} and {used4}"
)
NOISE_OF_MECHANISM = "the {noise} of its mechanism"
STATED_EPSILON = "the stated ε = {epsilon}"
LESS_FOR_KEYS = ", less {epsilon} for the keys"
NOTHING_LEFT = "nothing is left for noise of {stated}"
WITHIN = "{reason}, within {stated}"
MORE_THAN = "{reason}, more than {stated}"
NOT_COMPARED = "{reason}; its cells were not compared with that noise, which was added before the map"
SHORT_CELLS = (
    "the squared norm of its cells is {norm} grid steps², and with the noise stated at most one release in {releases} "
    "has so small a squared norm, whatever its data"
)
NO_PARTS = "{releases} releases went into it, and it does not contain what each of them stated"
NOT_WHOLE = "a release inside has a multiplier that is not a whole multiple of the sum's"
OTHER_SUM = "the estimates assume a noise of variance {stated}, and those of the releases inside add up to {used}"
OTHER_NEIGHBOURS = "a release inside is for other neighbours than the sum"
CONDITION_MISSING = "a release inside holds under a condition that the sum does not state"
WEAKER_BASIS = "the bound of a release inside rests on less than the sum states: asserted is less than enforced"
LESS_THAN_A_PART = "it states less ε or δ than a release inside"
ONE_INSIDE = "1 release inside"
RELEASES_INSIDE = "{releases} releases inside"
SOME_INSIDE = "{count} of the {inside}: {reason}"
EACH_INSIDE = "each of the {inside}: {reason}"
EACH_IS_ENOUGH = "each of the {inside} states enough for its own guarantee"

# --- the explanation of a release -----------------------------------------------------------------------------

MEANING = (
    "no test with a false alarm rate of 5 % detects that a given {unit} is in the data in more than {percent} % of "
    "cases"
)
NOISE_IS_ENOUGH = "The noise is enough"
WARNING = "WARNING"
NOT_CHECKED = "Not checked"
NOT_SHOWN = (
    "No file can prove that the noise was drawn this way or that the bound was enforced: you trust the releaser for "
    "that."
)
NOISE_ON = "Exact discrete noise on {place}: {mechanism}."
ON_CELLS = "each of the {count} cells of the sketch"
ON_ROWS = "each of the {count} cells of every row"
ON_COORDINATES = "each of the {count} coordinates, before the map"
BETWEEN_STEPS = "the {count} coordinates after the Hadamard step, before the sparse matrix"
CLIP_SCALE = (
    "The sketch of each {unit} that was longer than the bound was shortened to it first: estimates are about what was "
    "left."
)
CLIP_EQUAL = (
    "The sketch of each {unit} was brought to the length of the bound first, so that each counts the same: estimates "
    "are about mixes, not amounts."
)
CLIP_AVERAGE = (
    "The rows of each {unit}, or those that the agreement keeps, were averaged first, so that each counts as one row: "
    "averages and shares are of {unit}s, not of rows."
)
NOISE_FROM_THE_START = "Noise was added before the first update, and fresh noise on release."
CHOSEN_KEYS = "The published keys were chosen privately, with ε = {epsilon}, δ = {delta} of it."
ROW = "row {window}"
WINDOW = "window {window}"
WINDOWS = "windows {first} to {last}"
LESS_WINDOWS = " less {windows}"
ROW_OF_HISTORY = (
    "This is {part} of a history: a weighted sum of windows up to {last}, with its own noise. One guarantee holds for "
    "all rows of the history together. Estimates are for ranges of windows, and are computed from all rows."
)
RANGE_OF_HISTORY = (
    "This is {part} of a history, computed from its rows: post-processing, so one guarantee holds for all rows and "
    "ranges of the history together."
)
COMBINED = "{releases} releases were added or subtracted; {composed}."
COMPOSED_OVERLAPPING = "the stated ε and δ are the sums of theirs, which holds for overlapping populations"
COMPOSED_DISJOINT = "the stated ε and δ are the largest of theirs, which holds for disjoint populations only"
COMPOSED_MIXED = (
    "the stated ε and δ are between the largest and the sums of theirs, which holds if some populations are disjoint"
)
COMPOSED_BELOW = "the stated ε and δ are less than those of one of them, which is not a composition"
COMPOSED_UNKNOWN = "their guarantees, and the populations for which they were composed, are not recorded"
COST_OF_ALL = "A person with one {unit} in each of the {releases} spends up to {budget} in all."
MULTIPLIED = "The cells count {multiplier} times: post-processing, with an unchanged guarantee."
BEYOND_BOUND = "What one {unit} adds beyond the bound of {bound}, where that was not clipped."
MORE_UNITS = "A person with more than one {unit}: n of them spend n times ε."
FACTS_ABOUT_MANY = "Facts about many: the release is meant to show that two {alike} are similar."
ANOTHER_RELEASE = "Another release of the same data, here or elsewhere: it adds to ε."
WHO_TAKES_PART = "Who takes part, and under which key: the existence of the release shows it."
SECOND_INTRUSION = "A second intrusion: one intrusion and the release are covered."
EXACT_SKETCH = "The exact sketch, and any process or pipeline that held it or the secret of the noise."
INDIVIDUAL_GUARANTEE = "individual differential privacy only (not differential privacy): {guarantee}"
INDIVIDUAL_ALONE = "Individual differential privacy, which is not differential privacy"
INDIVIDUAL = "Its guarantee is individual differential privacy, which is not differential privacy."
HOLDS_ONLY_IF = "It holds only if: {conditions}."
TOO_LITTLE_NOISE = (
    "It states too little noise for its guarantee, so neither its guarantee nor the error bars of estimates from it "
    "can be relied on: {reason}."
)
NOTHING_CLIPPED = "Nothing was clipped to the bound of {bound}: the releaser asserts that it holds."

# --- pages: the report and the viewer -------------------------------------------------------------------------

ONE_STREAM = "1 stream"
STREAMS = "{count} streams"
MORE_NAMES = "{names} and {count} more"
UNCLEAR = "cannot be distinguished from 0"
UNCLEAR_PAIRS = "cannot be distinguished from 0 ({unclear} of {pairs} pairs)"
SO_UNCLEAR = ", so it cannot be distinguished from 0"
NOTHING_IN_COMMON = "streams with nothing in common"

NO_CHANGE = "No change stands out. {compared}"
ONE_CHANGE = "1 change stands out: {window}."
CHANGES = "{count} changes stand out."
CHANGES_IN = "They are in {windows}."
NOTHING_STANDS_OUT = "Nothing stands out from the noise."
NOT_RANKED = "{streams} are empty, or too small for their noise, so this page does not rank them."
PAIR = "{first} and {second}: {quantity} {value} ± {error}."
PAIR_INTERVAL = "With 95\u00a0% confidence it is in {interval}{unclear}."
ONE_GROUP = "1 group stands out."
GROUPS = "{count} groups stand out."
OF_GROUPS = (
    "Any two streams of a group are {nearer} than either is with any stream outside it. With 95\u00a0% confidence, "
    "that is true of all groups at once."
)
NEARER = "nearer to each other"
MORE_ALIKE = "more alike"
NOISE_HIDES_ONE = "Noise hides where 1 stream belongs."
NOISE_HIDES = "Noise hides where {count} streams belong."
NO_GROUP = "No group stands out: a group would be streams that are all nearer to each other than to any other stream."
NO_DIFFERENCE = "No difference between the streams stands out."
ALL_WITHIN = (
    "No stream is shown to be nearer to one stream than to another. With 95\u00a0% confidence, every {title} is in "
    "{least} … {most}."
)
NO_PAIR_IN_COMMON = "No two streams are shown to have anything in common."
NO_PAIR_DIFFERS = "No two streams are shown to differ."
ALL_PAIRS = "All {count} pairs"
SOME_PAIRS = "{count} of {pairs} pairs"
HAS_IN_COMMON = "{pairs} has something in common, most surely {pair}."
HAVE_IN_COMMON = "{pairs} have something in common, most surely {pair}."
DIFFERS = "{pairs} differs beyond the noise{nearest}."
DIFFER = "{pairs} differ beyond the noise{nearest}."
NEAREST_ARE = "; the nearest are {pair}"
EACH_PAIR = "With 95\u00a0% confidence, the {title} of each of them is {where}, and the intervals here hold at once."

FACTOR = (
    "Whether the data of one {unit} are in a release or not changes the probability of anything on this page by a "
    "factor of at most {factor}{unless} (ε\u00a0=\u00a0{epsilon}). For one {unit} in several releases the factors "
    "multiply."
)
LARGE_FACTOR = "e^ε, which hides next to nothing"
UNLESS = ", except with a probability of {delta}"
FOR_UNITS = "for one {unit}"
FOR_DIFFERENT_UNITS = "for different units"
STATED_BELOW = "as stated below"
GUARANTEED = "What is guaranteed"
EVERY_RELEASE = "Every release"
ASSERTED = "Asserted, not checked:"
ASSERTED_BOUND = "one {unit} adds at most {bound}{whether}. The guarantee depends on it."
NOT_SAID = ", or so it seems: the releases do not say"
IN_SOME = "in {count} of {releases} releases, {text}"

NOT_DRAWN = "Not drawn:"
BELOW_FLOOR = "the {numbers} of {count} of the streams are {where}."
SQUARED_NORMS = "squared norms"
LIKE_EMPTY = "no larger than noise makes some of so many empty streams"
EMPTY_OR_SMALL = "These are empty, or too small for their noise: {names}."
ALARMS = (
    "An alarm is a change that noise does not explain{typical}: where no series has such a change, the probability of "
    "any alarm on the page is {level}\u00a0% at most."
)
BEYOND_TYPICAL = (
    ", and in series of six windows or more one that is also larger than what is typical of them by an estimate"
)
NO_ALARM = "There is none."
EACH_CHANGE = "Changes, each from the window before"
JOINT_MODEL = "joint estimate: {target}, ν = {strength}, {folds} folds of cells{gain}"
NO_GAIN = ", which show no gain: pairs alone"
WEIGHT = ", weight {weight}"
TOWARDS = "towards what the cells of all streams say of it"
JOINT = (
    "All {titles} on this page and the map are joint estimates: each is drawn {towards}. Their errors are what is "
    "to be expected over all pairs; an interval is that of the pair alone, so it may be much wider. How they were "
    "made: {model}."
)
ONE_INTERVAL = (
    "A pair has one interval on this page. The intervals of all pairs{which} hold at once, with 95\u00a0%: what the "
    "first sentences say follows from them."
)
DRAWN_OR_NOT = " of all streams, drawn or not,"
MAP_SHARE = "The two axes show {share}\u00a0% of the differences between the streams{partly}."
MAP_PARTLY = ", so near points may be far apart"
MAP_ELLIPSES = "An ellipse contains its stream with about 95\u00a0% confidence, if the others are fixed."
PAIRS_AND_SIZES = "All pairs and sizes"
SIZES = "Squared norms, in squared units of the values"
WHAT_DIFFERS = "What differs"
AVERAGES_DIFFER = "what one unit adds on average"
SUMS_DIFFER = "the sums"
SUMS_MEASURE_SIZE = "Sums measure size, too: a large stream has more of most."

# --- rows that are read ---------------------------------------------------------------------------------------

NO_HEADER = "is empty, without even the header line in which CSV names its columns"
NOT_ONE_LINE = (
    "is not one line of CSV: a quote is not closed in it, text follows a closing quote, or there is a carriage return "
    "without a newline"
)
NOT_IN_NFC = "another name than in NFC"
BROUGHT_INTO_NFC = "brought into it by the agreement"
BLANKS = "at the ends, repeated or not spaces: {done}"
OTHER_BY_BLANKS = "another name than without them"
BLANKS_AGREED = "set by the agreement"
LOOKS_MISSING = "{examples}: counted as a name"
SEVERAL_SPELLINGS = (
    "of names that are also written otherwise, such as {examples}: different names under the agreement; {count} in all"
)
IS_IT_THE_UNIT = "{column} has {names} different names, and there are {units} units: is {unit} the unit?"

# --- estimates ------------------------------------------------------------------------------------------------

FEW_WINDOWS = "a series needs at least two windows to compare, got {windows}"
NO_ENTROPY = "the entropy is undefined: the total of the histogram is within two standard errors of zero"
