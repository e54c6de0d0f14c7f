"""Lines to be found by a filter: shuffled ones, and ones of other languages (from the Universal Declaration of Human
Rights, articles 1 to 3)."""

import random

FOREIGN_LINES = 400
FOREIGN = (
    "alle menschen sind frei und gleich an würde und rechten geboren . sie sind mit vernunft und gewissen begabt und "
    "sollen einander im geist der brüderlichkeit begegnen . jeder hat das recht auf leben , freiheit und sicherheit "
    "der person .",
    "tous les êtres humains naissent libres et égaux en dignité et en droits . ils sont doués de raison et de "
    "conscience et doivent agir les uns envers les autres dans un esprit de fraternité . tout individu a droit à la "
    "vie , à la liberté et à la sûreté de sa personne .",
    "todos los seres humanos nacen libres e iguales en dignidad y derechos y , dotados como están de razón y "
    "conciencia , deben comportarse fraternalmente los unos con los otros . todo individuo tiene derecho a la vida , "
    "a la libertad y a la seguridad de su persona .",
    "tutti gli esseri umani nascono liberi ed eguali in dignità e diritti . essi sono dotati di ragione e di "
    "coscienza e devono agire gli uni verso gli altri in spirito di fratellanza . ogni individuo ha diritto alla "
    "vita , alla libertà ed alla sicurezza della propria persona .",
    "alle mensen worden vrij en gelijk in waardigheid en rechten geboren . zij zijn begiftigd met verstand en "
    "geweten , en behoren zich jegens elkander in een geest van broederschap te gedragen . een ieder heeft het recht "
    "op leven , vrijheid en onschendbaarheid van zijn persoon .",
    "alla människor är födda fria och lika i värde och rättigheter . de har utrustats med förnuft och samvete och "
    "bör handla gentemot varandra i en anda av gemenskap . var och en har rätt till liv , frihet och personlig "
    "säkerhet .",
)


def planted(lines: list[bytes], seed: int = 1) -> tuple[list[bytes], list[int]]:
    """Return the lines with planted ones among them, and the kind of each: 0 as given, 1 shuffled, 2 foreign."""
    draw = random.Random(seed)
    shuffled = []
    for line in lines:
        words = line.split()
        draw.shuffle(words)
        shuffled.append(b" ".join(words))
    texts = [text.split() for text in FOREIGN]
    foreign = []
    for number in range(FOREIGN_LINES):
        text = texts[number % len(texts)]
        size = draw.randint(8, 25)
        first = draw.randrange(len(text) - size)
        foreign.append(" ".join(text[first : first + size]).encode())
    every = [(line, kind) for kind, part in enumerate((lines, shuffled, foreign)) for line in part]
    draw.shuffle(every)
    return [line for line, _ in every], [kind for _, kind in every]
