"""fairseq's default --ddp-backend with several processes on the CPU, and with LayerDrop."""

from fairseq.models import distributed_fairseq_model
from torch.nn.parallel import DistributedDataParallel


class AnyDeviceDataParallel(DistributedDataParallel):
    """torch's, as fairseq calls it, also for a model on the CPU.

    fairseq names a GPU for it, which torch refuses if the model is not on one.

    Args:
        module (nn.Module): the model, or a criterion with parameters.
        device_ids (list of int): the GPU.
        output_device (int): the same.
        find_unused_parameters (bool): whether an update may leave parameters out.
        **options: torch's others.
    Raises:
        ValueError: for LayerDrop without ``find_unused_parameters``, which torch would end in the
            first update that leaves out a layer.
    """

    def __init__(
        self, module, device_ids=None, output_device=None, find_unused_parameters=False, **options
    ):
        share = getattr(getattr(module, "args", None), "encoder_layerdrop", 0)
        if share and not find_unused_parameters:
            raise ValueError(
                f"--encoder-layerdrop {share} leaves out layers, so that several processes with "
                "--ddp-backend pytorch_ddp (the default; c10d) need --find-unused-parameters as "
                "well; or give --ddp-backend legacy_ddp"
            )
        if all(x.device.type == "cpu" for x in module.parameters()):
            device_ids = output_device = None
        super().__init__(
            module, device_ids=device_ids, output_device=output_device,
            find_unused_parameters=find_unused_parameters, **options,
        )  # fmt: skip


def allow_cpu_workers() -> None:
    """Let the trainings of this process use it."""
    distributed_fairseq_model.DistributedDataParallel = AnyDeviceDataParallel
