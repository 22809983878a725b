"""Threads of its own that look for work all the time for a while, and then sleep."""

import torch
from native import LINEAR_RELU, build, call
from torch import nn

SOURCE = (
    LINEAR_RELU
    + r"""
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
static std::atomic<long> turn{0}, done{0};
static std::mutex lock;
static std::condition_variable waits;
static const float *X, *W, *B; static float *Y; static long M, N, K;
static void half(long n) {
    long a = M * n / 2, e = M * (n + 1) / 2;
    linear_relu(X + a * K, W, B, Y + a * N, e - a, N, K);
}
static void loop() {
    for (long seen = 0;;) {
        int spins = 0;
        while (turn.load() == seen) {
            if (++spins < 20000) continue;
            std::unique_lock<std::mutex> held(lock);
            waits.wait(held, [&] { return turn.load() != seen; });
        }
        ++seen;
        half(1);
        done.fetch_add(1);
    }
}
extern "C" void shared(const float *x, const float *w, const float *b, float *y, long m, long n, long k) {
    static bool started = [] { std::thread(loop).detach(); return true; }();
    X = x, W = w, B = b, Y = y, M = m, N = n, K = k;
    long before = done.load();
    { std::lock_guard<std::mutex> held(lock); turn.fetch_add(1); }
    waits.notify_all();
    half(0);
    while (done.load() == before) ;
}
"""
)


class ModelNew(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)
        self.kernel = build(SOURCE).shared

    def forward(self, x):
        w, b = self.linear.weight, self.linear.bias
        y = torch.empty(x.shape[0], w.shape[0])
        call(self.kernel, x, w, b, y, *y.shape, x.shape[1])
        return y
