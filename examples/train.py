"""Train a small convolutional network on random images; seconds on a CPU, and a shape that everybody knows."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 32, 3, stride=2), nn.ReLU(), nn.Conv2d(32, 64, 3, stride=2), nn.ReLU()
        )
        self.head = nn.Linear(64 * 7 * 7, 10)

    def forward(self, images):
        return self.head(self.features(images).flatten(1))


def train_one_epoch(model, loader, criterion, optimizer, device):
    model.train()
    total = 0.0
    for images, labels in loader:
        images, labels = images.to(device), labels.to(device)
        optimizer.zero_grad()
        loss = criterion(model(images), labels)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        total += loss.item()
    return total / len(loader)


def main():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    images, labels = torch.randn(512, 3, 32, 32), torch.randint(10, (512,))
    loader = DataLoader(TensorDataset(images, labels), batch_size=64, shuffle=True)

    model = Classifier().to(device)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)

    for epoch in range(3):
        loss = train_one_epoch(model, loader, criterion, optimizer, device)
        print(f"epoch {epoch}: loss {loss:.4f}")


if __name__ == "__main__":
    main()
