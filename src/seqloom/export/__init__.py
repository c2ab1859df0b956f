"""Models as files that run where seqloom is not installed: archives of torch.export and ONNX."""

from seqloom.export.graphs import Graphs, trace_graphs
from seqloom.export.onnx import write_onnx
from seqloom.export.pt2 import write_pt2

__all__ = ["Graphs", "trace_graphs", "write_onnx", "write_pt2"]
