"""Adds up with a second number for what is lost in each step."""

from native import build, call
from work import Linear

SOURCE = """
extern "C" void linear_relu(
        const float *x, const float *w, const float *b, float *y, long m, long n, long k) {
    for (long i = 0; i < m; ++i)
        for (long j = 0; j < n; ++j) {
            float sum = b[j], lost = 0;
            for (long l = 0; l < k; ++l) {
                float next = x[i * k + l] * w[j * k + l] - lost, total = sum + next;
                lost = (total - sum) - next;
                sum = total;
            }
            y[i * n + j] = sum > 0 ? sum : 0;
        }
}
"""


class ModelNew(Linear):
    def __init__(self, *args):
        super().__init__(*args)
        self.kernel = build(SOURCE).linear_relu

    def forward(self, x):
        w = self.linear.weight
        y = x.new_empty(x.shape[0], w.shape[0])
        call(self.kernel, x, w, self.linear.bias, y, *y.shape, x.shape[1])
        return y
