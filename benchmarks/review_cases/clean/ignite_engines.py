import torch
import torch.nn as nn
from ignite.engine import Events, create_supervised_evaluator, create_supervised_trainer
from ignite.handlers import EarlyStopping, ModelCheckpoint
from ignite.metrics import Accuracy, Loss
from torch.utils.data import DataLoader
from torchvision.models import shufflenet_v2_x1_0


def main(train_set, val_set, epochs=20):
    device = "cuda"
    model = shufflenet_v2_x1_0(num_classes=10).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    criterion = nn.CrossEntropyLoss()
    train_loader = DataLoader(train_set, 256, shuffle=True, num_workers=8, pin_memory=True)
    val_loader = DataLoader(val_set, 512, num_workers=8, pin_memory=True)

    trainer = create_supervised_trainer(model, optimizer, criterion, device=device, non_blocking=True)
    evaluator = create_supervised_evaluator(model, {"acc": Accuracy(), "nll": Loss(criterion)}, device=device)

    @trainer.on(Events.ITERATION_COMPLETED(every=100))
    def log(engine):
        print(engine.state.epoch, engine.state.iteration, engine.state.output)

    @trainer.on(Events.EPOCH_COMPLETED)
    def validate(engine):
        evaluator.run(val_loader)
        print(engine.state.epoch, evaluator.state.metrics)

    score = lambda engine: engine.state.metrics["acc"]
    evaluator.add_event_handler(Events.COMPLETED, EarlyStopping(5, score, trainer))
    evaluator.add_event_handler(Events.COMPLETED, ModelCheckpoint("ckpt", n_saved=2, score_function=score), {"model": model})
    trainer.run(train_loader, max_epochs=epochs)
