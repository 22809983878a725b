"""Has a pool of C++ threads of its own, which wait for work between calls."""

import ctypes

import torch
from native import LINEAR_RELU, build
from work import Linear

SOURCE = (
    LINEAR_RELU
    + r"""
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>
struct Job { const float *x, *w, *b; float *y; long m, n, k; };
struct Pool {
    std::mutex lock;
    std::condition_variable begin, end;
    long round = 0, left = 0, threads;
    Job job{};
    explicit Pool(long count) : threads(count) {
        for (long t = 0; t < count; ++t) std::thread([this, t] { serve(t); }).detach();
    }
    void serve(long t) {
        for (long seen = 0;;) {
            std::unique_lock<std::mutex> held(lock);
            begin.wait(held, [&] { return round != seen; });
            seen = round;
            Job own = job;
            held.unlock();
            long from = own.m * t / threads, to = own.m * (t + 1) / threads;
            linear_relu(own.x + from * own.k, own.w, own.b, own.y + from * own.n, to - from, own.n, own.k);
            held.lock();
            if (!--left) end.notify_one();
        }
    }
    void run(Job next) {
        std::unique_lock<std::mutex> held(lock);
        job = next, left = threads, ++round;
        begin.notify_all();
        end.wait(held, [&] { return !left; });
    }
};
extern "C" void in_parallel(
        const float *x, const float *w, const float *b, float *y, long m, long n, long k) {
    static Pool *pool = new Pool(2);
    pool->run({x, w, b, y, m, n, k});
}
"""
)


class ModelNew(Linear):
    def __init__(self, *args):
        super().__init__(*args)
        self.kernel = build(SOURCE).in_parallel

    def forward(self, x):
        w, b = self.linear.weight, self.linear.bias
        y = torch.empty(x.shape[0], w.shape[0])
        pointers = (ctypes.c_void_p(t.data_ptr()) for t in (x, w, b, y))
        self.kernel(*pointers, *map(ctypes.c_long, (*y.shape, x.shape[1])))
        return y
