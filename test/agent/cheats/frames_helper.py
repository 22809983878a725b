"""What `stealing_by_a_helper` has done in another file: looks for who called."""

import sys


def callers():
    frame, found = sys._getframe(1), []
    while frame is not None:
        found.append(frame.f_code.co_name)
        frame = frame.f_back
    return found
