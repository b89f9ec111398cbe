"""A Trainer of Hugging Face whose ranks read shards of their own; without `even` rank 1 has one batch less."""

import gc
import os
import sys

import torch
from torch.utils.data import DataLoader
from transformers import PretrainedConfig, PreTrainedModel, Trainer, TrainingArguments


class Line(PreTrainedModel):
    config_class = PretrainedConfig

    def __init__(self, config):
        super().__init__(config)
        self.linear = torch.nn.Linear(4, 1)
        self.post_init()

    def forward(self, inputs, labels=None):
        return {"loss": self.linear(inputs).square().mean()}


class ShardTrainer(Trainer):
    def get_train_dataloader(self):
        uneven = self.args.process_index == 1 and "even" not in sys.argv
        rows = [{"inputs": torch.randn(4), "labels": torch.zeros(1)} for _ in range(12 if uneven else 16)]
        return DataLoader(rows, batch_size=4)


arguments = TrainingArguments(
    output_dir="out", use_cpu=True, num_train_epochs=1, per_device_train_batch_size=4, report_to=[], save_strategy="no",
    disable_tqdm=True, logging_steps=100, ddp_backend="gloo",
)  # fmt: skip
trainer = ShardTrainer(model=Line(PretrainedConfig()), args=arguments, train_dataset=[{}] * 16)
trainer.train()  # <- here
print("rank", os.environ["RANK"], "trained")
del trainer
gc.collect()  # a group that its model outlives, or that nobody ends, may fail at exit (torch 2.13)
torch.distributed.destroy_process_group()
