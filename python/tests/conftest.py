"""What several tests share."""
import pytest


@pytest.fixture
def reference():
    """onnxruntime's outputs of a model for a feed, without its optimisations."""
    import onnxruntime

    def run(model, feed):
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = (
            onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL)
        session = onnxruntime.InferenceSession(model.SerializeToString(), options,
                                               providers=["CPUExecutionProvider"])
        return session.run(None, feed)
    return run
