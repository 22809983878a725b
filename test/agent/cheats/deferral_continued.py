"""Has processes of its own continue it, and one another, when it is stopped; machine code follows inputs."""

from deferral_native import SOURCE
from deferral_native import ModelNew as Following
from native import build

HELPERS = (
    SOURCE
    + """
#include <csignal>
#include <sys/mman.h>
#include <unistd.h>
extern "C" void go_on() {
    void *shared = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    auto all = static_cast<volatile pid_t *>(shared);
    all[0] = getpid();
    for (int n = 1; n < 4; ++n)
        if (!fork()) {
            all[n] = getpid();
            for (;;)
                for (int k = 0; k < 4; ++k)
                    if (all[k] && all[k] != getpid()) kill(all[k], SIGCONT);
        }
}
"""
)


class ModelNew(Following):
    def __init__(self, *args):
        super().__init__(*args)
        build(HELPERS).go_on()
