"""torch's own tests of its optimizers (TestOptimRenewed), applied to GradaGrad and AutoGradaGrad.

Every test runs on torch.optim.Adagrad too, with torch's own OptimizerInfo: an Adagrad failure means the test is wrong.
Left out because they need a GPU: multi-GPU direction, mixed devices, peak memory, large tensors, CPU state loaded
onto a GPU, fused CPU against fused CUDA, "foreach is the default" (on a CPU the loop is, which is tested).
"""
