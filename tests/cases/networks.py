"""What the cases are: importing this module fills the catalogue."""
import numpy as np
from onnx import TensorProto, helper, numpy_helper

from catalogue import both, case, grouped, on, plan
from oracles import qlinear_conv, run_onnxruntime, softmax

X = "float[1,3,6,6] x"  # the input of most cases
Y = "float[1,4,6,6] y"
W = (4, 3, 3, 3)
PAD1 = "<pads = [1,1,1,1]>"

# What counts as a bias is decided by each dimension, never by the number of elements.

def bias_case(name, shape, plans, op="s = Add(c, a)", x=X, y=Y, w=W, pads=PAD1):
    case(name, x, y, f"c = Conv{pads}(x, w)\n{op}\ny = Relu(s)", {"w": w, "a": shape}, plans=plans)


ONE = plan("c y", folded={"s": "c"})
bias_case("bias_1C11", (1, 4, 1, 1), both(ONE, plan("c", "y", folded={"s": "c"}, not_fused=["option"])))
bias_case("bias_C11", (4, 1, 1), ONE)
bias_case("bias_scalar", (), ONE)
bias_case("bias_1111", (1, 1, 1, 1), ONE)
bias_case("bias_first_operand", (1, 4, 1, 1), ONE, "s = Add(a, c)")
bias_case("bias_subtracted", (1, 4, 1, 1), ONE, "s = Sub(c, a)")
bias_case("bias_minus_conv", (1, 4, 1, 1), plan("c y", folded={"s": "c"}), "s = Sub(a, c)")
ALONG_W = plan("c", "s y", not_fused=["broadcast"])
bias_case("bias_along_width", (4,), ALONG_W, x="float[1,3,6,4] x", y="float[1,4,6,4] y")
bias_case("bias_along_width_rank4", (1, 1, 1, 4), ALONG_W, x="float[1,3,6,4] x",
          y="float[1,4,6,4] y")
bias_case("bias_along_height", (4, 1), plan("c", "s y", not_fused=["broadcast"]),
          x="float[1,3,4,6] x", y="float[1,4,4,6] y")
bias_case("bias_along_batch", (4, 1, 1, 1), None, x="float[4,3,5,5] x", y="float[4,4,5,5] y")
bias_case("bias_per_pixel", (1, 1, 6, 6), plan("c s y"))
bias_case("bias_full", (1, 4, 6, 6), plan("c s y"))
bias_case("bias_per_channel_and_row", (1, 4, 6, 1), plan("c", "s y", not_fused=["broadcast"]))
bias_case("bias_widens_one_channel", (4, 1, 1), plan("c", "s y", not_fused=["shape"]),
          w=(1, 3, 3, 3))
bias_case("bias_raises_rank", (2, 1, 1, 1, 1), plan("c", "s y", not_fused=["shape"]),
          y="float[2,1,4,6,6] y")
case("bias_of_a_1d_conv", "float[2,3,9] x", "float[2,4,9] y",
     "c = Conv<pads = [1,1]>(x, w)\ns = Add(c, a)\ny = Relu(s)", {"w": (4, 3, 3), "a": (4, 1)},
     plans=ONE)
case("bias_is_an_input", X + ", float[1,4,1,1] a", Y,
     f"c = Conv{PAD1}(x, w)\ns = Add(c, a)\ny = Relu(s)", {"w": W}, plans=plan("c s y"))
case("conv_bias_is_an_input", X + ", float[4] b", Y, f"c = Conv{PAD1}(x, w, b)\ny = Relu(c)",
     {"w": W}, plans=plan("c y"))
case("weight_is_an_input", X + ", float[4,3,3,3] w", Y, f"c = Conv{PAD1}(x, w)\ny = Relu(c)")
case("scale_is_a_scalar_input", X + ", float k", Y, f"c = Conv{PAD1}(x, w)\ny = Mul(c, k)",
     {"w": W})

# x * sigmoid(x): the same tensor on both sides, node and output index.

SILU = "s = Sigmoid(c)\ny = Mul(c, s)"
case("silu_spelled_out", X, Y, f"c = Conv{PAD1}(x, w)\n{SILU}", {"w": W}, plans=plan("c s y"))
case("silu_other_order", X, Y, f"c = Conv{PAD1}(x, w)\ns = Sigmoid(c)\ny = Mul(s, c)", {"w": W},
     plans=plan("c s y"))
case("silu_of_another_conv", X, Y,
     f"a = Conv{PAD1}(x, w)\nb = Conv{PAD1}(x, v)\ns = Sigmoid(b)\ny = Mul(a, s)",
     {"w": W, "v": W}, plans=grouped("a b s y",
                                       parts=plan("a", "b s y", not_fused=["joined-elsewhere"])))
case("silu_of_another_output", X, "float[1,2,6,6] y",
     f"c = Conv{PAD1}(x, w)\np, q = Split<axis = 1>(c)\ns = Sigmoid(q)\ny = Mul(p, s)", {"w": W})
case("silu_read_elsewhere", X, Y + ", float[1,4,6,6] s", f"c = Conv{PAD1}(x, w)\n{SILU}",
     {"w": W})
case("square_of_conv", X, Y, f"c = Conv{PAD1}(x, w)\ny = Mul(c, c)", {"w": W},
     plans=grouped("c y", parts=plan("c", "y", not_fused=["both-operands"])))
case("twice_the_conv", X, Y, f"c = Conv{PAD1}(x, w)\ny = Add(c, c)", {"w": W},
     plans=grouped("c y", parts=plan("c", "y", not_fused=["both-operands"])))

# One reader and no graph output, or the result is stored as well.

case("conv_is_an_output", X, "float[1,4,6,6] c, float[1,4,6,6] y",
     f"c = Conv{PAD1}(x, w)\ny = Relu(c)", {"w": W},
     plans=grouped("c y", parts=plan("c", "y", not_fused=["graph-output"])))
case("relu_is_an_output", X, "float[1,4,6,6] r, float[1,4,6,6] y",
     f"c = Conv{PAD1}(x, w)\nr = Relu(c)\ny = Tanh(r)", {"w": W},
     plans=grouped("c r y", parts=plan("c r", "y", not_fused=["graph-output"])))
case("conv_read_twice", X, Y, f"c = Conv{PAD1}(x, w)\nr = Relu(c)\ny = Add(c, r)", {"w": W},
     plans=grouped("c r y", parts=plan("c", "r y", not_fused=["several-readers"])))
case("conv_read_by_a_conv", X, Y + ", float[1,4,6,6] z",
     f"c = Conv{PAD1}(x, w)\ny = Relu(c)\nz = Conv(c, v)", {"w": W, "v": (4, 4, 1, 1)},
     plans=grouped("c y", "z", parts=plan("c", "y", "z", not_fused=["several-readers"])))
case("output_twice", X, Y + ", float[1,4,6,6] z", f"c = Conv{PAD1}(x, w)\ny = Relu(c)\n"
     "z = Identity(y)", {"w": W})
case("input_is_an_output", X, "float[1,4,6,6] y, float[1,3,6,6] z",
     f"c = Conv{PAD1}(x, w)\ny = Relu(c)\nz = Identity(x)", {"w": W})
case("constant_is_an_output", X, "float[1,4,6,6] y, float[3] z",
     f"c = Conv{PAD1}(x, w)\ny = Relu(c)\nz = Identity(k)", {"w": W, "k": (3,)})
case("unused_branch", X, Y, f"c = Conv{PAD1}(x, w)\nu = Conv{PAD1}(x, v)\ny = Relu(c)",
     {"w": W, "v": W}, plans=plan("c y", folded={"u": "unused"}))

# Residuals.

V = (3, 3, 3, 3)
Y3 = "float[1,3,6,6] y"
case("residual_before_relu", X, Y3, f"c = Conv{PAD1}(x, w)\ns = Add(c, x)\ny = Relu(s)", {"w": V},
     plans=both(plan("c s y"), plan("c", "s", "y", not_fused=["option"])))
case("residual_after_relu", X, Y3, f"c = Conv{PAD1}(x, w)\nr = Relu(c)\ny = Add(x, r)", {"w": V},
     plans=plan("c r y"))
case("residual_of_two_convs", X, Y,
     f"a = Conv{PAD1}(x, w)\nb = Conv{PAD1}(x, v)\ns = Add(a, b)\ny = Relu(s)",
     {"w": W, "v": W}, plans=grouped("a b s y",
                                       parts=plan("a", "b s y", not_fused=["joined-elsewhere"])))
case("residual_depends_on_conv", X, Y,
     f"c = Conv{PAD1}(x, w)\nm = GlobalAveragePool(c)\ny = Mul(c, m)", {"w": W},
     plans=plan("c", "m", "y", not_fused=["several-readers"]))
case("residual_through_a_conv", X, Y,
     f"c = Conv{PAD1}(x, w)\nd = Conv(c, v)\ns = Add(c, d)\ny = Relu(s)",
     {"w": W, "v": (4, 4, 1, 1)},
     plans=grouped("c d s y", parts=plan("c", "d s y", not_fused=["several-readers"])))
case("residual_is_an_image_scale", X + ", float[1,4,1,1] z", Y,
     f"c = Conv{PAD1}(x, w)\ny = Mul(c, z)", {"w": W}, plans=plan("c y"))
case("residual_varies_by_image", "float[2,3,6,6] x, float[2,4,1,1] z", "float[2,4,6,6] y",
     f"c = Conv{PAD1}(x, w)\ny = Mul(c, z)", {"w": W}, plans=plan("c y"))
case("residual_minus_conv", X, Y3, f"c = Conv{PAD1}(x, w)\ny = Sub(x, c)", {"w": V},
     plans=plan("c y"))
case("residual_over_conv", X, Y3, f"c = Conv{PAD1}(x, w, b)\ny = Div(x, c)",
     {"w": np.full(V, 0.125, np.float32), "b": np.full(3, 8, np.float32)}, plans=plan("c y"))


def squeeze_excite_case(name, grouped, outputs="", body=None, apart=None):
    body = body or "d = Conv(m, v)\nr = Relu(d)\ne = Conv(r, u)\ng = Sigmoid(e)\ny = Mul(c, g)"
    case(name, X, Y + outputs, f"c = Conv{PAD1}(x, w)\nm = GlobalAveragePool(c)\n{body}",
         {"w": W, "v": (2, 4, 1, 1), "u": (4, 2, 1, 1)},
         plans={**(apart or {}), **on("cuda:sm_90", grouped)})


squeeze_excite_case(
    "squeeze_excite", plan("c", "m", "d r e g y", not_fused=["several-readers", "slower"]),
    apart=plan("c", "m", "d r", "e g", "y", not_fused=["shape", "several-readers"]))
squeeze_excite_case(
    "squeeze_excite_mean_is_an_output",
    plan("c", "m", "d r e g y", not_fused=["several-readers"]), ", float[1,4,1,1] m")
squeeze_excite_case(
    "squeeze_excite_gate_is_an_output",
    plan("c", "m", "d r e g", "y",
         not_fused=["graph-output", "several-readers", "slower", "other-image"]),
    ", float[1,4,1,1] g")
squeeze_excite_case(
    "squeeze_excite_gate_read_twice",
    plan("c", "m", "d r e g", "y", "z", not_fused=["several-readers", "slower", "other-image"]),
    ", float[1,4,1,1] z",
    "d = Conv(m, v)\nr = Relu(d)\ne = Conv(r, u)\ng = Sigmoid(e)\ny = Mul(c, g)\nz = Neg(g)")
squeeze_excite_case(
    "squeeze_excite_of_another_image",
    plan("c", "m", "k", "d r e g y",
         not_fused=["several-readers", "graph-output", "other-image"]),
    ", float[1,4,6,6] k",
    "d = Conv(m, v)\nr = Relu(d)\ne = Conv(r, u)\ng = Sigmoid(e)\nk = Abs(c)\ny = Mul(k, g)")
case("skip_around_two_convs", X, Y3, f"c = Conv{PAD1}(x, w)\nr = Relu(c)\n"
     f"d = Conv{PAD1}(r, v)\ns = Add(d, x)\ny = Relu(s)", {"w": V, "v": V},
     plans=grouped("c r d s y", parts=plan("c r", "d s y")))

# Scales and shifts: only finite ones, on a copy, never through a non-linearity that minds.

INF = np.array([1, np.inf, -1, 2], np.float32).reshape(4, 1, 1)
case("scale_infinite", X, Y, f"c = Conv{PAD1}(x, w)\ny = Mul(c, a)", {"w": W, "a": INF},
     plans=plan("c y"))
case("scale_nan", X, Y, f"c = Conv{PAD1}(x, w)\ny = Mul(c, a)",
     {"w": W, "a": np.array([1, np.nan, 0, 2], np.float32).reshape(4, 1, 1)})
case("shift_infinite", X, Y, f"c = Conv{PAD1}(x, w)\ny = Add(c, a)", {"w": W, "a": INF})
case("scale_overflows", X, Y, f"c = Conv{PAD1}(x, w)\nm = Mul(c, a)\ny = Mul(m, b)",
     {"w": W, "a": np.full((4, 1, 1), 1e30, np.float32),
      "b": np.full((4, 1, 1), 1e-30, np.float32)},
     data={"x": np.full((1, 3, 6, 6), 0.25, np.float32)})
case("scale_zero", X, Y, f"c = Conv{PAD1}(x, w)\ny = Mul(c, a)",
     {"w": W, "a": np.array([1, 0, -1, 2], np.float32).reshape(4, 1, 1)},
     plans=plan("c", folded={"y": "c"}))
case("scale_of_a_shared_weight", X, Y + ", float[1,4,6,6] z",
     f"c = Conv{PAD1}(x, w)\ny = Mul(c, a)\nz = Conv{PAD1}(x, w)", {"w": W, "a": (4, 1, 1)},
     plans=plan("c", "z", folded={"y": "c"}))
case("scale_before_bias", X, Y, f"c = Conv{PAD1}(x, w, b)\nm = Mul(c, a)\ny = Add(m, d)",
     {"w": W, "b": (4,), "a": (4, 1, 1), "d": (4, 1, 1)},
     plans=plan("c", folded={"m": "c", "y": "c"}))
NEGATIVE = np.array([-1, 2, -0.5, 1], np.float32).reshape(4, 1, 1)
case("negative_scale_after_relu", X, Y, f"c = Conv{PAD1}(x, w)\nr = Relu(c)\ny = Mul(r, a)",
     {"w": W, "a": NEGATIVE}, plans=plan("c r y"))
case("negative_scale_before_relu", X, Y, f"c = Conv{PAD1}(x, w)\nm = Mul(c, a)\ny = Relu(m)",
     {"w": W, "a": NEGATIVE}, plans=plan("c y", folded={"m": "c"}))
case("scale_divides", X, Y, f"c = Conv{PAD1}(x, w)\ny = Div(c, a)",
     {"w": W, "a": np.array([2, -4, 0.5, 8], np.float32).reshape(4, 1, 1)})
case("scale_over_conv", X, Y, f"c = Conv{PAD1}(x, w, b)\ny = Div(a, c)",
     {"w": np.full(W, 0.125, np.float32), "b": np.full(4, 8, np.float32), "a": (4, 1, 1)},
     plans=plan("c y"))
case("scale_on_the_input", X, Y, f"m = Mul(x, a)\ny = Conv{PAD1}(m, w)",
     {"w": W, "a": (3, 1, 1)}, plans=plan("y", folded={"m": "y"}))
case("shift_on_a_padded_input", X, Y, f"s = Add(x, a)\ny = Conv{PAD1}(s, w)",
     {"w": W, "a": (3, 1, 1)}, plans=grouped("s y", parts=plan("s", "y")))
case("shift_on_an_unpadded_input", X, "float[1,4,4,4] y", "s = Add(x, a)\ny = Conv(s, w)",
     {"w": W, "a": (3, 1, 1)}, plans=plan("y", folded={"s": "y"}))

BN = {"bs": np.array([1, -2, 0.5, 3], np.float32), "bb": (4,), "bm": (4,),
      "bv": np.array([0.25, 1, 4, 0.5], np.float32)}
NORM = "BatchNormalization<epsilon = 0.00390625>"
case("batch_norm_after_conv", X, Y, f"c = Conv{PAD1}(x, w, b)\ny = {NORM}(c, bs, bb, bm, bv)",
     {"w": W, "b": (4,), **BN}, plans=plan("c", folded={"y": "c"}))
case("batch_norm_opset_9", X, Y, f"c = Conv{PAD1}(x, w, b)\ny = {NORM}(c, bs, bb, bm, bv)",
     {"w": W, "b": (4,), **BN}, opset=9, ir=4, plans=plan("c", folded={"y": "c"}))
case("batch_norm_after_relu", X, Y,
     f"c = Conv{PAD1}(x, w)\nr = Relu(c)\ny = {NORM}(r, bs, bb, bm, bv)", {"w": W, **BN},
     plans=plan("c r y"))
case("batch_norm_after_grouped_conv", "float[1,4,6,6] x", Y,
     f"c = Conv<pads = [1,1,1,1], group = 2>(x, w)\ny = {NORM}(c, bs, bb, bm, bv)",
     {"w": (4, 2, 3, 3), **BN}, plans=plan("c", folded={"y": "c"}))
case("batch_norm_after_transposed_conv", X, "float[1,4,13,13] y",
     f"c = ConvTranspose<strides = [2,2]>(x, w)\ny = {NORM}(c, bs, bb, bm, bv)",
     {"w": (3, 4, 3, 3), **BN}, plans=plan("c", folded={"y": "c"}))
case("batch_norm_after_grouped_transposed_conv", "float[1,4,5,5] x", "float[1,4,7,7] y",
     f"c = ConvTranspose<group = 2>(x, w, b)\ny = {NORM}(c, bs, bb, bm, bv)",
     {"w": (4, 2, 3, 3), "b": (4,), **BN}, plans=plan("c", folded={"y": "c"}))
case("batch_norm_before_padded_conv", "float[1,4,6,6] x", Y,
     f"n = {NORM}(x, bs, bb, bm, bv)\ny = Conv{PAD1}(n, w)", {"w": (4, 4, 3, 3), **BN})
case("batch_norm_before_unpadded_conv", "float[1,4,6,6] x", "float[1,4,4,4] y",
     f"n = {NORM}(x, bs, bb, bm, bv)\ny = Conv(n, w)", {"w": (4, 4, 3, 3), **BN},
     plans=plan("y", folded={"n": "y"}))
case("batch_norm_alone", "float[2,4,5,5] x", "float[2,4,5,5] y",
     f"y = {NORM}(x, bs, bb, bm, bv)", BN)
case("batch_norm_in_training_mode", "float[2,4,5,5] x", "float[2,4,5,5] y",
     "y, m, v = BatchNormalization<training_mode = 1>(x, bs, bb, bm, bv)", BN,
     refused="training_mode")

# Activations, with NaN and infinite values on the way.

SPECIAL = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1, -1, 7, -7, 3], np.float32)
ACTIVATIONS = {
    "relu": "y = Relu(c)",
    "clip_0_6": "y = Clip(c, lo, hi)",
    "clip_min_only": "y = Clip(c, lo)",
    "clip_max_only": "y = Clip(c, , hi)",
    "clip_crossed": "y = Clip(c, hi, lo)",
    "relu_then_clip": "r = Relu(c)\ny = Clip(r, lo, hi)",
    "min_of_max": "m = Max(c, lo)\ny = Min(m, hi)",
    "leaky_relu": "y = LeakyRelu<alpha = 0.25>(c)",
    "negative_leaky_relu": "y = LeakyRelu<alpha = -0.5>(c)",
    "prelu": "y = PRelu(c, slope)",
    "sigmoid": "y = Sigmoid(c)",
    "tanh": "y = Tanh(c)",
    "elu": "y = Elu<alpha = 0.5>(c)",
    "selu": "y = Selu(c)",
    "celu": "y = Celu<alpha = 2.0>(c)",
    "softplus": "y = Softplus(c)",
    "softsign": "y = Softsign(c)",
    "hard_sigmoid": "y = HardSigmoid<alpha = 0.25, beta = 0.625>(c)",
    "hard_swish": "y = HardSwish(c)",
    "hard_swish_spelled_out": "a = Add(c, three)\nb = Clip(a, lo, hi)\nm = Mul(c, b)\n"
                              "y = Div(m, hi)",
    "mish_spelled_out": "p = Softplus(c)\nt = Tanh(p)\ny = Mul(c, t)",
    "gelu_spelled_out": "d = Div(c, root)\ne = Erf(d)\na = Add(e, one)\nm = Mul(c, a)\n"
                        "y = Mul(m, half)",
    "exp": "y = Exp(c)",
    "abs": "y = Abs(c)",
}
KNOBS = {"lo": np.float32(0), "hi": np.float32(6), "three": np.float32(3), "one": np.float32(1),
         "half": np.float32(0.5), "root": np.float32(np.sqrt(2)), "slope": (4, 1, 1)}
for activation, text in ACTIVATIONS.items():
    used = {k: v for k, v in KNOBS.items() if any(k == word.strip("(),") for line in
            text.split("\n") for word in line.replace("(", " ").replace(")", " ")
            .replace(",", " ").split())}
    nodes = " ".join(line.split(" = ")[0] for line in text.split("\n"))
    finite = activation in ("mish_spelled_out", "gelu_spelled_out", "hard_swish_spelled_out",
                            "clip_crossed", "hard_swish")
    special = SPECIAL[3:] if finite else SPECIAL
    if activation in ("clip_min_only", "clip_max_only"):  # is a missing bound infinite or FLT_MAX?
        special = special[~np.isinf(special)]
    values = np.resize(special, (1, 4, 5, 5)).astype(np.float32)
    case(f"activation_{activation}", "float[1,4,5,5] x", "float[1,4,5,5] y",
         f"c = Conv<group = 4>(x, w)\n{text}", {"w": np.ones((4, 1, 1, 1), np.float32), **used},
         data={"x": values}, plans=plan(f"c {nodes}"))
case("prelu_slope_along_width", "float[1,3,6,4] x", "float[1,4,6,4] y",
     f"c = Conv{PAD1}(x, w)\ny = PRelu(c, a)", {"w": W, "a": (4,)},
     plans=plan("c", "y", not_fused=["broadcast"]))
case("relu_keeps_nan_of_conv", X, Y, f"c = Conv{PAD1}(x, w, b)\ny = Relu(c)",
     {"w": W, "b": np.array([0, np.nan, 1, np.inf], np.float32)}, plans=plan("c y"))
case("many_activations", X, Y, f"c = Conv{PAD1}(x, w)\nt = Tanh(c)\nl = LeakyRelu(t)\n"
     "s = Sigmoid(l)\nm = Mul(s, a)\nz = Add(m, x1)\ny = Elu(z)",
     {"w": W, "a": (4, 1, 1), "x1": (1, 4, 6, 6)}, plans=plan("c t l s m z y"))

# Windows: pads, strides, dilations, groups.

def conv_case(name, x, y, w, attributes="", **more):
    case("conv_" + name, f"float{x} x", f"float{y} y",
         f"c = Conv{'<' + attributes + '>' if attributes else ''}(x, w, b)\ny = Relu(c)",
         {"w": w, "b": (w[0],)}, plans=plan("c y"), **more)


conv_case("1x1", [1, 5, 6, 6], [1, 7, 6, 6], (7, 5, 1, 1))
conv_case("1x1_strided", [1, 5, 7, 8], [1, 7, 4, 4], (7, 5, 1, 1), "strides = [2,2]")
conv_case("asymmetric_pads", [1, 3, 6, 6], [1, 4, 7, 5], W, "pads = [2,0,1,1]")
conv_case("same_upper", [1, 3, 7, 6], [1, 4, 4, 3], W, 'auto_pad = "SAME_UPPER", strides = [2,2]')
conv_case("same_lower", [1, 3, 7, 6], [1, 4, 4, 3], W, 'auto_pad = "SAME_LOWER", strides = [2,2]')
conv_case("same_upper_even_kernel", [1, 3, 6, 6], [1, 4, 6, 6], (4, 3, 4, 2),
          'auto_pad = "SAME_UPPER"')
conv_case("same_lower_even_kernel", [1, 3, 6, 6], [1, 4, 6, 6], (4, 3, 4, 2),
          'auto_pad = "SAME_LOWER"')
conv_case("valid", [1, 3, 7, 6], [1, 4, 3, 2], W, 'auto_pad = "VALID", strides = [2,2]')
conv_case("dilated", [1, 3, 9, 9], [1, 4, 9, 9], W, "pads = [2,3,2,3], dilations = [2,3]")
conv_case("stride_beyond_kernel", [1, 3, 9, 9], [1, 4, 3, 3], (4, 3, 2, 2), "strides = [3,3]")
conv_case("window_mostly_padding", [1, 3, 2, 2], [1, 4, 6, 6], W, "pads = [3,3,3,3]")
conv_case("5x5_of_one_channel", [1, 1, 9, 9], [1, 6, 9, 9], (6, 1, 5, 5), "pads = [2,2,2,2]")
conv_case("7x7_first_layer", [1, 3, 17, 15], [1, 9, 9, 8], (9, 3, 7, 7),
          "pads = [3,3,3,3], strides = [2,2]")
conv_case("depthwise", [1, 19, 7, 7], [1, 19, 7, 7], (19, 1, 3, 3), "pads = [1,1,1,1], group = 19")
conv_case("depthwise_strided", [1, 19, 8, 7], [1, 19, 4, 4], (19, 1, 3, 3),
          "pads = [1,1,1,1], strides = [2,2], group = 19")
conv_case("depthwise_5x5_dilated", [1, 6, 11, 11], [1, 6, 7, 7], (6, 1, 5, 5),
          "pads = [2,2,2,2], dilations = [2,2], group = 6")
conv_case("depthwise_multiplier", [1, 3, 6, 6], [1, 6, 6, 6], (6, 1, 3, 3),
          "pads = [1,1,1,1], group = 3")
conv_case("grouped", [1, 6, 6, 6], [1, 9, 6, 6], (9, 2, 3, 3), "pads = [1,1,1,1], group = 3")
conv_case("grouped_wide", [1, 40, 5, 5], [1, 40, 5, 5], (40, 20, 1, 1), "group = 2")
conv_case("batch", [3, 3, 6, 6], [3, 4, 6, 6], W, "pads = [1,1,1,1]")
conv_case("1d", [2, 3, 11], [2, 4, 6], (4, 3, 3), "pads = [1,1], strides = [2]")
conv_case("3d", [1, 2, 4, 5, 6], [1, 3, 4, 5, 6], (3, 2, 3, 3, 3), "pads = [1,1,1,1,1,1]")
conv_case("one_pixel", [1, 33, 1, 1], [1, 17, 1, 1], (17, 33, 1, 1))
conv_case("long_rows", [1, 2, 2, 131], [1, 17, 2, 131], (17, 2, 3, 3), "pads = [1,1,1,1]")
conv_case("wide", [1, 32, 13, 13], [1, 48, 13, 13], (48, 32, 3, 3), "pads = [1,1,1,1]")
case("conv_3x3_residual", "float[2,24,18,15] x, float[2,40,17,16] r", "float[2,40,17,16] y",
     """c = Conv<pads = [0,2,1,1]>(x, w, b)
        s = Add(c, r)
        y = Relu(s)""", {"w": (40, 24, 3, 3), "b": (40,)}, plans=plan("c s y"))
case("conv_same_dilated", X, Y, 'y = Conv<auto_pad = "SAME_UPPER", dilations = [2,2]>(x, w)',
     {"w": W},  # ONNX Runtime refuses it
     expect=lambda feeds, weights: run_onnxruntime(
         helper.make_model(helper.make_graph(
             [helper.make_node("Conv", ["x", "w"], ["y"], dilations=[2, 2], pads=[2, 2, 2, 2])],
             "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 3, 6, 6))],
             [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
             [numpy_helper.from_array(weights["w"], "w")]),
             ir_version=8, opset_imports=[helper.make_opsetid("", 13)]), feeds))
case("conv_border_is_zero", X, Y,  # zero, not conv1(0): the first bias must not leak in
     f"c = Conv{PAD1}(x, w, b)\nr = Relu(c)\nd = Conv{PAD1}(r, v, e)\ny = Relu(d)",
     {"w": W, "b": np.full(4, 2, np.float32), "v": (4, 4, 3, 3), "e": (4,)},
     plans=grouped("c r d y", parts=plan("c r", "d y")))
case("conv_then_1x1", X, Y, f"c = Conv{PAD1}(x, w, b)\nr = Relu(c)\nd = Conv(r, v, e)\n"
     "y = Relu(d)", {"w": W, "b": (4,), "v": (4, 4, 1, 1), "e": (4,)},
     plans=grouped("c r d y", parts=plan("c r", "d y")))
case("separable_block", "float[1,8,9,9] x", "float[1,8,9,9] y",
     "a = Conv(x, w)\nb = Clip(a, lo, hi)\nc = Conv<pads = [1,1,1,1], group = 24>(b, v)\n"
     "d = Clip(c, lo, hi)\ne = Conv(d, u)\ny = Add(e, x)",
     {"w": (24, 8, 1, 1), "v": (24, 1, 3, 3), "u": (8, 24, 1, 1), "lo": np.float32(0),
      "hi": np.float32(6)}, plans=grouped("a b c d e y", parts=plan("a b", "c d", "e y")))

case("transposed_conv", X, "float[1,4,11,11] y",
     "c = ConvTranspose<strides = [2,2], pads = [1,1,1,1]>(x, w, b)\ny = Relu(c)",
     {"w": (3, 4, 3, 3), "b": (4,)})
case("transposed_conv_output_padding", X, "float[1,4,12,13] y",
     "y = ConvTranspose<strides = [2,2], pads = [1,1,1,0], output_padding = [1,1]>(x, w)",
     {"w": (3, 4, 3, 3)})
case("transposed_conv_output_shape", X, "float[1,4,10,9] y",
     'y = ConvTranspose<strides = [2,2], output_shape = [10,9]>(x, w)', {"w": (3, 4, 3, 3)})
case("transposed_conv_dilated", X, "float[1,4,10,10] y",
     "y = ConvTranspose<dilations = [2,2]>(x, w)", {"w": (3, 4, 3, 3)})
case("transposed_conv_residual", X + ", float[1,4,12,12] z", "float[1,4,12,12] y",
     "c = ConvTranspose<strides = [2,2]>(x, w)\ns = Add(c, z)\ny = Relu(s)",
     {"w": (3, 4, 2, 2)})
case("transposed_conv_into_concat", "float[1,16,5,6] x, float[1,8,10,12] s", "float[1,8,10,12] y",
     "u = ConvTranspose<strides = [2,2]>(x, w, b)\nr = Relu(u)\n"
     f"a = Conv{PAD1}(s, p)\nc = Concat<axis = 1>(a, r)\ny = Conv{PAD1}(c, v)",
     {"w": (16, 16, 2, 2), "b": (16,), "p": (8, 8, 3, 3), "v": (8, 24, 3, 3)},
     plans=on("cuda:sm_90", plan("u r", "a", "y", folded={"c": "view"})))
case("transposed_conv_wide_residual", "float[2,16,5,4] x, float[2,24,10,8] z", "float[2,24,10,8] y",
     "c = ConvTranspose<strides = [2,2], pads = [1,1,1,1]>(x, w, b)\n"
     "s = Add(c, z)\ny = Clip(s, lo, hi)",
     {"w": (16, 24, 4, 4), "b": (24,), "lo": np.float32(-1), "hi": np.float32(6)})

# Pad before a window.

def pad_case(name, pads, attributes="", value=0.0, mode="constant", plans=None, x=X,
             y="float[1,4,6,6] y", w=W):
    case("pad_" + name, x, y, f'p = Pad<mode = "{mode}">(x, pads, value)\n'
         f"y = Conv{attributes}(p, w)",
         {"pads": np.array(pads, np.int64), "value": np.float32(value), "w": w}, plans=plans)


FOLDED = plan("y", folded={"p": "y"})
pad_case("zero_into_conv", [0, 0, 1, 1, 0, 0, 1, 1], plans=FOLDED)
pad_case("adds_to_pads", [0, 0, 1, 0, 0, 0, 0, 1], "<pads = [0,1,1,0]>", plans=FOLDED)
pad_case("value_one", [0, 0, 1, 1, 0, 0, 1, 1], value=1, plans=plan("p", "y"))
pad_case("reflect", [0, 0, 1, 1, 0, 0, 1, 1], mode="reflect", plans=plan("p", "y"))
pad_case("edge", [0, 0, 1, 1, 0, 0, 1, 1], mode="edge", plans=plan("p", "y"))
pad_case("crops", [0, 0, -1, 0, 0, 0, 0, -2], PAD1, y="float[1,4,5,4] y")
pad_case("crops_then_conv_pads", [0, 0, -1, -1, 0, 0, -1, -1], "<pads = [2,2,2,2]>")
pad_case("channels", [0, 1, 0, 0, 0, 1, 0, 0], PAD1, w=(4, 5, 3, 3))
case("pad_before_max_pool", X, "float[1,3,3,3] y",  # the pool's own padding is -inf, not 0
     "p = Pad(x, pads)\ny = MaxPool<kernel_shape = [3,3], strides = [2,2]>(p)",
     {"pads": np.array([0, 0, 1, 1, 0, 0, 0, 0], np.int64)},
     data={"x": -np.ones((1, 3, 6, 6), np.float32)})

# Pools.

def pool_case(name, op, y, attributes, x="float[1,3,7,7] x", **more):
    case("pool_" + name, x, f"float{y} y", f"y = {op}<{attributes}>(x)", **more)


pool_case("max_padded_negative", "MaxPool", [1, 3, 7, 7], "kernel_shape = [3,3], pads = [1,1,1,1]",
          data={"x": -1 - np.arange(147, dtype=np.float32).reshape(1, 3, 7, 7)})
pool_case("max_ceil", "MaxPool", [1, 3, 4, 4],
          "kernel_shape = [2,2], strides = [2,2], ceil_mode = 1")
pool_case("max_dilated", "MaxPool", [1, 3, 3, 3], "kernel_shape = [3,3], dilations = [2,2]")
pool_case("max_same", "MaxPool", [1, 3, 4, 4],
          'kernel_shape = [2,2], strides = [2,2], auto_pad = "SAME_UPPER"')
pool_case("average", "AveragePool", [1, 3, 4, 4],
          "kernel_shape = [3,3], strides = [2,2], pads = [1,1,1,1]")
pool_case("average_counts_padding", "AveragePool", [1, 3, 4, 4],
          "kernel_shape = [3,3], strides = [2,2], pads = [1,1,1,1], count_include_pad = 1")
pool_case("average_ceil", "AveragePool", [1, 3, 4, 4],
          "kernel_shape = [2,2], strides = [2,2], ceil_mode = 1")
pool_case("max_1d", "MaxPool", [1, 3, 3], "kernel_shape = [3], strides = [2]",
          x="float[1,3,7] x")
pool_case("max_3d", "MaxPool", [1, 2, 2, 2, 2], "kernel_shape = [2,2,2], strides = [2,2,2]",
          x="float[1,2,4,4,4] x")
case("conv_pool_conv", X, "float[1,4,3,3] y",
     f"c = Conv{PAD1}(x, w)\nr = Relu(c)\np = MaxPool<kernel_shape = [2,2], strides = [2,2]>(r)\n"
     f"y = Conv{PAD1}(p, v)", {"w": W, "v": (4, 4, 3, 3)},
     plans=grouped("c r p y", parts=plan("c r", "p", "y")))

# Concat, split, shuffle, resize: what moves elements.

case("concat_of_convs", X, "float[1,12,6,6] y",
     f"a = Conv{PAD1}(x, w)\nb = Relu(a)\nc = Conv(x, v)\nd = Relu(c)\ny = Concat<axis = 1>(b, d)",
     {"w": W, "v": (8, 3, 1, 1)})
case("concat_of_one_twice", X, "float[1,8,6,6] y",
     f"c = Conv{PAD1}(x, w)\ny = Concat<axis = 1>(c, c)", {"w": W})
case("concat_read_by_a_conv", X, Y, f"a = Conv{PAD1}(x, w)\nb = Conv{PAD1}(x, v)\n"
     f"c = Concat<axis = 1>(a, b, x)\ny = Conv{PAD1}(c, u)",
     {"w": (5, 3, 3, 3), "v": (2, 3, 3, 3), "u": (4, 10, 3, 3)})
case("concat_also_read_alone", X, "float[1,7,6,6] y, float[1,4,6,6] z",
     f"c = Conv{PAD1}(x, w)\ny = Concat<axis = 1>(x, c)\nz = Relu(c)", {"w": W})
case("concat_along_height", X, "float[1,4,12,6] y",
     f"a = Conv{PAD1}(x, w)\nb = Conv{PAD1}(x, v)\ny = Concat<axis = 2>(a, b)", {"w": W, "v": W})
case("dense_block", X, "float[1,11,6,6] y",
     f"a = Conv{PAD1}(x, w)\nb = Concat<axis = 1>(x, a)\nc = Conv{PAD1}(b, v)\n"
     "y = Concat<axis = 1>(b, c)", {"w": W, "v": (4, 7, 3, 3)})
case("split_and_add", X, "float[1,2,6,6] y",
     f"c = Conv{PAD1}(x, w)\np, q = Split<axis = 1>(c)\ny = Add(p, q)", {"w": W})
case("slice_of_channels", X, "float[1,4,6,6] y",
     f"s = Slice(x, one, three, one)\ny = Conv{PAD1}(s, w)",
     {"one": np.array([1], np.int64), "three": np.array([3], np.int64), "w": (4, 2, 3, 3)})
INTS = lambda *values: np.array(values, np.int64)
case("pixel_shuffle_spelled_out", "float[1,3,5,4] x", "float[1,2,10,8] y",
     f"c = Conv{PAD1}(x, w)\na = Reshape(c, s)\nb = Transpose<perm = [0,1,4,2,5,3]>(a)\n"
     "y = Reshape(b, t)",
     {"w": (8, 3, 3, 3), "s": INTS(1, 2, 2, 2, 5, 4), "t": INTS(1, 2, 10, 8)})
case("channel_shuffle_spelled_out", "float[1,6,5,4] x", "float[1,6,5,4] y",
     "a = Reshape(x, s)\nb = Transpose<perm = [0,2,1,3,4]>(a)\nc = Reshape(b, t)\n"
     "y = Conv<group = 2>(c, w)",
     {"s": INTS(1, 2, 3, 5, 4), "t": INTS(1, -1, 5, 4), "w": (6, 3, 1, 1)})
SHUFFLE = ("{0}a = Reshape({1}, s)\n{0}b = Transpose<perm = [0,2,1,3,4]>({0}a)\n"
           "{0}y = Reshape({0}b, t)\n")
UNIT = (f"{{0}}p, {{0}}q = Split<axis = 1>({{1}})\n{{0}}c = Conv({{0}}q, w)\n{{0}}r = Relu({{0}}c)\n"
        f"{{0}}d = Conv<group = 4, pads = [1,1,1,1]>({{0}}r, d)\n{{0}}e = Conv({{0}}d, v)\n"
        "{0}f = Concat<axis = 1>({0}p, {0}e)\n" + SHUFFLE.replace("{1}", "{0}f"))
case("shuffle_units", "float[1,8,6,6] x", "float[1,8,6,6] vy", UNIT.format("u", "x") +
     UNIT.format("v", "uy"),
     {"w": (4, 4, 1, 1), "d": (4, 1, 3, 3), "v": (4, 4, 1, 1), "s": INTS(1, 2, 4, 6, 6),
      "t": INTS(1, 8, 6, 6)},
     plans=grouped("up uc ur ud ue uf ua ub uy vp vc vr vd ve vf va vb vy",
                   parts=plan("up", "uc ur", "ud", "ue", "ua ub uy", "vc vr", "vd", "ve", "va vb vy",
                              folded={"uf": "view", "vf": "view", "vp": "view"})))
case("depth_to_space_crd", "float[1,8,3,4] x", "float[1,2,6,8] y",
     'y = DepthToSpace<blocksize = 2, mode = "CRD">(x)')
case("depth_to_space_dcr", "float[1,8,3,4] x", "float[1,2,6,8] y",
     "y = DepthToSpace<blocksize = 2>(x)")
case("focus_slices", "float[1,3,8,8] x", "float[1,4,4,4] y",
     "a = Slice(x, s00, e, ax, st)\nb = Slice(x, s10, e, ax, st)\nc = Slice(x, s01, e, ax, st)\n"
     "d = Slice(x, s11, e, ax, st)\nf = Concat<axis = 1>(a, b, c, d)\n"
     f"y = Conv{PAD1}(f, w)",
     {"s00": INTS(0, 0), "s10": INTS(1, 0), "s01": INTS(0, 1), "s11": INTS(1, 1),
      "e": INTS(2**31 - 1, 2**31 - 1), "ax": INTS(2, 3), "st": INTS(2, 2), "w": (4, 12, 3, 3)})
case("flatten_into_gemm", X, "float[1,5] y",
     f"c = Conv{PAD1}(x, w)\nr = Relu(c)\nf = Flatten(r)\ny = Gemm<transB = 1>(f, v, b)",
     {"w": W, "v": (5, 144), "b": (5,)})
case("shape_chain", X, "float[1,144] y",
     f"c = Conv{PAD1}(x, w)\ns = Shape(c)\nn = Gather(s, zero)\nu = Unsqueeze(n, axes)\n"
     "t = Concat<axis = 0>(u, minus)\ny = Reshape(c, t)",
     {"w": W, "zero": np.int64(0), "axes": INTS(0), "minus": INTS(-1)},
     plans=plan("c", folded={"s": "constant", "n": "constant", "u": "constant", "t": "constant",
                             "y": "view"}))
case("nhwc_model", "float[1,6,6,3] x", "float[1,6,6,4] y",
     f"a = Transpose<perm = [0,3,1,2]>(x)\nb = Conv{PAD1}(a, w)\nc = Relu(b)\n"
     "y = Transpose<perm = [0,2,3,1]>(c)", {"w": W})
case("transpose_then_relu", X, "float[1,6,4,6] y",
     f"c = Conv{PAD1}(x, w)\nt = Transpose<perm = [0,2,1,3]>(c)\ny = Relu(t)", {"w": W})
for mode, coordinate, nearest in (("nearest", "asymmetric", "floor"),
                                  ("nearest", "half_pixel", "round_prefer_floor"),
                                  ("linear", "half_pixel", "floor"),
                                  ("linear", "align_corners", "floor"),
                                  ("linear", "asymmetric", "floor"),
                                  ("linear", "pytorch_half_pixel", "floor")):
    case(f"resize_{mode}_{coordinate}", "float[1,3,4,5] x", "float[1,4,8,10] y",
         f'u = Resize<mode = "{mode}", coordinate_transformation_mode = "{coordinate}", '
         f'nearest_mode = "{nearest}">(x, , scales)\ny = Conv{PAD1}(u, w)',
         {"scales": np.array([1, 1, 2, 2], np.float32), "w": W})
# The axes that keep their extent (N, C, W) stay where they are: the mode's formula alone would move
# them by half an element. What is right is an index of H.
case("resize_tf_half_pixel_keeps_other_axes", "float[2,3,4,5] x", "float[2,3,8,5] y",
     'y = Resize<mode = "nearest", coordinate_transformation_mode = "tf_half_pixel_for_nn", '
     'nearest_mode = "ceil">(x, roi, scales)',
     {"roi": np.zeros(0, np.float32), "scales": np.array([1, 1, 2, 1], np.float32)}, opset=11,
     expect=lambda feeds, _: [feeds["x"][:, :, [1, 1, 2, 2, 3, 3, 3, 3], :]])
case("resize_to_odd_sizes", X, "float[1,3,7,4] y",
     'y = Resize<mode = "linear">(x, , , sizes)', {"sizes": INTS(1, 3, 7, 4)})
case("top_down_add", X + ", float[1,4,3,3] z", Y,
     'u = Resize<mode = "nearest", coordinate_transformation_mode = "asymmetric", '
     f'nearest_mode = "floor">(z, , scales)\nc = Conv{PAD1}(x, w)\ny = Add(c, u)',
     {"scales": np.array([1, 1, 2, 2], np.float32), "w": W},
     plans=grouped("u c y", parts=plan("u", "c y")))
case("top_down_concat", X + ", float[1,4,3,3] z", Y,
     'u = Resize<mode = "nearest", coordinate_transformation_mode = "asymmetric", '
     f'nearest_mode = "floor">(z, , scales)\nc = Conv{PAD1}(x, w)\nd = Concat<axis = 1>(u, c)\n'
     "y = Conv(d, v)", {"scales": np.array([1, 1, 2, 2], np.float32), "w": W, "v": (4, 8, 1, 1)},
     plans=grouped("u c d y", parts=plan("u", "c", "d", "y")))
case("top_down_linear", X + ", float[1,4,3,3] z", Y,
     f'u = Resize<mode = "linear">(z, , scales)\nc = Conv{PAD1}(x, w)\ny = Add(c, u)',
     {"scales": np.array([1, 1, 2, 2], np.float32), "w": W},
     plans=plan("u", "c y", not_fused=["resize"]))

# Matrix products, normalisations, reductions.

case("gemm_bias_row", "float[3,5] x", "float[3,4] y", "y = Gemm(x, w, c)", {"w": (5, 4), "c": (4,)})
case("gemm_bias_column", "float[3,5] x", "float[3,4] y", "y = Gemm(x, w, c)",
     {"w": (5, 4), "c": (3, 1)})
case("gemm_alpha_beta", "float[5,3] x", "float[3,4] y",
     "y = Gemm<alpha = 0.5, beta = -2.0, transA = 1, transB = 1>(x, w, c)",
     {"w": (4, 5), "c": (1, 4)})
case("matmul_bias_relu", "float[2,3,5] x", "float[2,3,4] y",
     "m = MatMul(x, w)\ns = Add(m, a)\ny = Relu(s)", {"w": (5, 4), "a": (4,)})
# Products of long matrices are 1x1 convolutions over their rows.
case("gemm_chain", "float[512,16] x", "float[512,16] y",
     "a = Gemm<transB = 1>(x, u, b)\nr = Relu(a)\nm = MatMul(r, v)\ns = Add(m, b)\nt = Relu(s)\n"
     "g = Gemm(t, w)\nh = Add(g, x)\ny = Relu(h)",
     {"u": (24, 16), "b": (24,), "v": (24, 24), "w": (24, 16)},
     plans={**plan("a r", "m t", "g h y", folded={"s": "m"}),
            **on("cuda:sm_86", plan("a r m t g h y", folded={"s": "m"})),
            **on("cuda:sm_75", plan("a r m t g h y", folded={"s": "m"}))})
case("matmul_of_inputs", "float[2,3,5] x, float[2,5,4] z", "float[2,3,4] y", "y = MatMul(x, z)")
case("softmax_flattens", "float[2,3,4] x", "float[2,3,4] y", "y = Softmax<axis = 1>(x)", opset=11,
     expect=lambda feeds, _: [softmax(feeds["x"].reshape(2, 12)).reshape(2, 3, 4)])
case("softmax_channels", X, "float[1,3,6,6] y", "y = Softmax<axis = 1>(x)")
case("instance_norm", "float[2,3,6,6] x", "float[2,3,6,6] y",
     "y = InstanceNormalization(x, s, b)", {"s": (3,), "b": (3,)})
case("instance_norm_spelled_out", "float[1,3,6,6] x", "float[1,3,6,6] y",
     "m = ReduceMean<axes = [2,3]>(x)\nd = Sub(x, m)\nq = Mul(d, d)\nv = ReduceMean<axes = [2,3]>(q)"
     "\ne = Add(v, eps)\nr = Sqrt(e)\nn = Div(d, r)\nk = Mul(n, s)\ny = Add(k, b)",
     {"eps": np.float32(0.001), "s": (3, 1, 1), "b": (3, 1, 1)})
case("reduce_then_conv", X, "float[1,4,1,1] y", "m = ReduceMean<axes = [2,3]>(x)\ny = Conv(m, w)",
     {"w": (4, 3, 1, 1)})
case("argmax_of_conv", X, "int64[1,1,6,6] y", f"c = Conv{PAD1}(x, w)\ny = ArgMax<axis = 1>(c)",
     {"w": W})

# Quantised.

QW = np.arange(-8, 8, dtype=np.int8).reshape(4, 1, 2, 2)
case("qlinear_conv", "uint8[1,1,5,5] x", "uint8[1,4,4,4] y",
     "y = QLinearConv(x, xs, xz, w, ws, wz, ys, yz, b)",
     {"xs": np.float32(0.5), "xz": np.uint8(3), "w": QW,
      "ws": np.array([0.5, 0.25, 1, 2], np.float32), "wz": np.zeros(4, np.int8),
      "ys": np.float32(2), "yz": np.uint8(100), "b": np.array([1, -5, 30, 4], np.int32)},
     expect=lambda feeds, w: [qlinear_conv(feeds["x"], w)])
case("qlinear_conv_weight_zero_points", "uint8[1,1,5,5] x", "uint8[1,2,4,4] y",
     "y = QLinearConv(x, xs, xz, w, ws, wz, ys, yz)",
     {"xs": np.float32(0.5), "xz": np.uint8(3),
      "w": np.arange(100, 108, dtype=np.uint8).reshape(2, 1, 2, 2),
      "ws": np.array([0.5, 0.25], np.float32), "wz": np.array([101, 90], np.uint8),
      "ys": np.float32(2), "yz": np.uint8(100)},
     expect=lambda feeds, w: [qlinear_conv(feeds["x"], w)])
case("quantize_saturates", "float[1,3,2,5] x", "uint8[1,3,2,5] y", "y = QuantizeLinear(x, s, z)",
     {"s": np.float32(0.25), "z": np.uint8(128)},
     data={"x": np.linspace(-50, 50, 30, dtype=np.float32).reshape(1, 3, 2, 5)})
case("qdq_around_conv", X, Y,
     "q = QuantizeLinear(x, s, z)\nd = DequantizeLinear(q, s, z)\n"
     f"e = DequantizeLinear<axis = 0>(w, ws, wz)\nc = Conv{PAD1}(d, e)\nr = Relu(c)\n"
     "p = QuantizeLinear(r, t, z)\ny = DequantizeLinear(p, t, z)",
     {"s": np.float32(0.125), "z": np.uint8(128), "t": np.float32(0.5),
      "w": np.arange(-54, 54, dtype=np.int8).reshape(W),
      "ws": np.array([0.125, 0.25, 0.5, 0.0625], np.float32), "wz": np.zeros(4, np.int8)})

# How models carry their weights.

case("initializer_is_an_input_ir3", X, Y, f"c = Conv{PAD1}(x, w, b)\ny = Relu(c)",
     {"w": W, "b": (4,)}, ir=3, opset=8, in_inputs=("w", "b"), plans=plan("c y"))
case("initializer_is_an_input_ir4", X, Y, f"c = Conv{PAD1}(x, w, b)\ny = Relu(c)",
     {"w": W, "b": (4,)}, ir=4, opset=10, in_inputs=("w", "b"))
case("weight_is_transposed", X, Y, f"t = Transpose<perm = [1,0,2,3]>(w)\ny = Conv{PAD1}(x, t)",
     {"w": (3, 4, 3, 3)}, plans=plan("y", folded={"t": "constant"}))
case("weight_is_a_constant_node", "float[1,1,4,4] x", "float[1,1,4,4] y",
     "w = Constant<value = float[1,1,1,1] {2.0}>()\nc = Conv(x, w)\ny = Relu(c)")
case("batch_is_symbolic", "float[N,3,6,6] x", "float[N,4,6,6] y",
     f"c = Conv{PAD1}(x, w)\ny = Relu(c)", {"w": W}, plans=plan("c y"))
case("shape_is_an_input", X + ", int64[2] shape", "float[A,B] y",
     f"c = Conv{PAD1}(x, w)\ny = Reshape(c, shape)", {"w": W}, data={"shape": INTS(4, 36)})
case("half_precision", "float16[1,8,6,6] x", "float16[1,8,6,6] y",
     f"c = Conv{PAD1}(x, w, b)\ny = Relu(c)",
     {"w": (np.arange(576) % 17 / 8 - 1).reshape(8, 8, 3, 3).astype(np.float16),
      "b": np.arange(8).astype(np.float16)}, tolerance=1e-3, plans=plan("c y"))
