"""Train a Transformer encoder, on the CPU, to tell which of two made-up languages a sequence is in."""

import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self, vocabulary=1000, width=512, layers=2, heads=8):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        layer = nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers)
        self.head = nn.Linear(width, 2)

    def forward(self, tokens):
        return self.head(self.encoder(self.embed(tokens)).mean(1))


def batches(count, size=8, length=128):
    for _ in range(count):
        labels = torch.randint(2, (size,))
        odd = torch.randint(500, (size, length)) * 2
        yield odd + labels[:, None], labels


def main():
    torch.manual_seed(0)
    model = Encoder()
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for step, (tokens, labels) in enumerate(batches(40)):
        optimizer.zero_grad()
        loss = criterion(model(tokens), labels)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 10 == 9:
            print(f"step {step + 1}: loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
