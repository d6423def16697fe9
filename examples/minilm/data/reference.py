"""Writes reference.json: tokens and vectors of ten sentences by PyTorch and Hugging Face's transformers.

    pip install torch transformers
    python reference.py ../weights
"""

import json
import pathlib
import sys

import torch
from transformers import AutoModel, AutoTokenizer

SENTENCES = [
    "The weather is lovely today.",
    "It's so sunny outside!",
    "He drove to the stadium.",
    "A compiler turns the recorded operations into one kernel.",
    "Gradients flow backwards through the graph.",
    "Der schnelle braune Fuchs springt über den faulen Hund.",
    "",
    "naïve café — façade, 東京 2026, x² ≤ 3.14!",
    "Unbelievably antidisestablishmentarianistic words are split into pieces.",
    "This sentence is long, so that the batch needs padding: it goes on and on, past many commas, with a remark in "
    "brackets (this one), a list of one, two, three, four, five, six and seven things, and an ending that comes late.",
]

folder = sys.argv[1]
model = AutoModel.from_pretrained(folder).eval()
batch = AutoTokenizer.from_pretrained(folder)(
    SENTENCES, padding=True, truncation=True, max_length=256, return_tensors="pt"
)
with torch.no_grad():
    tokens = model(**batch).last_hidden_state.double()
weight = batch["attention_mask"].unsqueeze(-1).double()
vectors = (tokens * weight).sum(1) / weight.sum(1).clamp(min=1e-9)
vectors = torch.nn.functional.normalize(vectors, dim=1)
found = [
    {
        "text": text,
        "tokens": ids[mask.bool()].tolist(),
        "vector": [round(x, 7) for x in vector.tolist()],
    }
    for text, ids, mask, vector in zip(SENTENCES, batch["input_ids"], batch["attention_mask"], vectors)
]
text = json.dumps(found, ensure_ascii=False, indent=0)
pathlib.Path(__file__).with_name("reference.json").write_text(text + "\n")
