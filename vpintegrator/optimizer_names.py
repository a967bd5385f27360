"""Names of the optimizers with their modules in ``training``, available without torch."""

CLASSES = {
    "levenberg-marquardt": "levenberg_marquardt.LevenbergMarquardt",
    "gauss-newton": "gauss_newton.GaussNewton",
    "adam": "first_order.Adam",
    "adamw": "first_order.AdamW",
    "linear": "linear_solve.LinearSolve",
    "l-bfgs": "quasi_newton.QuasiNewton",
}
OPTIMIZERS = ("auto", *CLASSES)  # auto is chosen by the model, see training/choice.py
