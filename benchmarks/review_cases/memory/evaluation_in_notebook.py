# %% [markdown]
# # Pneumonia from X-rays

# %%
import torch
import torch.nn as nn
import torchvision
from torchvision import transforms as T
from torch.utils.data import DataLoader

tf = T.Compose([T.Grayscale(3), T.Resize((224, 224)), T.ToTensor()])
train_dl = DataLoader(torchvision.datasets.ImageFolder("xray/train", tf), 32, shuffle=True, num_workers=2, pin_memory=True)
test_dl = DataLoader(torchvision.datasets.ImageFolder("xray/test", tf), 32, num_workers=2, pin_memory=True)

# %%
model = torchvision.models.densenet121(weights="DEFAULT")
model.classifier = nn.Linear(1024, 2)
model = model.to("cuda")
optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
criterion = nn.CrossEntropyLoss()

# %%
model.train()
for epoch in range(3):
    running_loss = 0.0
    for images, labels in train_dl:
        images, labels = images.to("cuda"), labels.to("cuda")
        optimizer.zero_grad()
        loss = criterion(model(images), labels)
        loss.backward()
        optimizer.step()
        running_loss += loss.item()  # expect: ESP305
    print(epoch, running_loss / len(train_dl))

# %%
y_true, y_score = [], []
for images, labels in test_dl:
    probs = torch.softmax(model(images.to("cuda")), dim=1)[:, 1]  # expect: ESP302, ESP102
    y_true.extend(labels.tolist())
    y_score.extend(probs.tolist())  # allow: ESP305
acc = sum((s > 0.5) == bool(t) for s, t in zip(y_score, y_true)) / len(y_true)
print("accuracy", acc)
