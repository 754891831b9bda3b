"""Makes questions in SQuAD's JSON about random words: which colour, and which number?"""

import argparse
import json
import random

WORDS = "the a bag and house in of tree is old door he she book was on car with hand".split()
KINDS = {"colour": ["red", "green", "blue", "white"], "number": ["two", "three", "four", "five"]}

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("output")
parser.add_argument("--texts", type=int, default=400)
parser.add_argument("--seed", type=int, default=1)
args = parser.parse_args()

draw, paragraphs = random.Random(args.seed), []
for text in range(args.texts):
    words, questions = draw.choices(WORDS, k=draw.randint(5, 30)), []
    for names in KINDS.values():
        if draw.random() < 0.75:  # else the question has no answer
            words.insert(draw.randrange(len(words)), draw.choice(names))
    context = " ".join(words)
    for kind, names in KINDS.items():
        places = [n for n, word in enumerate(words) if word in names]
        starts = [len(" ".join([*words[:n], ""])) for n in places]
        answers = [{"text": words[n], "answer_start": x} for n, x in zip(places, starts)]
        questions.append({
            "id": f"{args.seed}-{text}-{kind}", "question": f"Which {kind}?", "answers": answers,
            "is_impossible": not answers,
        })  # fmt: skip
    paragraphs.append({"context": context, "qas": questions})
with open(args.output, "w") as file:
    json.dump({"version": "v2.0", "data": [{"title": "words", "paragraphs": paragraphs}]}, file)
