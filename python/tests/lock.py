"""Is Python's lock released while something runs?"""
import sys
import threading
import time


def is_released_by(action, tries=50):
    """True if another thread counts while `action` runs, in one of some tries: a busy machine may
    not give it a processor at once. No thread is made to hand the lock over meanwhile."""
    counted, done = [0], threading.Event()

    def count():
        while not done.is_set():
            counted[0] += 1
            time.sleep(0)  # hands the lock back at once

    interval = sys.getswitchinterval()
    sys.setswitchinterval(60)
    thread = threading.Thread(target=count)
    try:
        thread.start()
        for _ in range(tries):
            before = counted[0]
            action()
            if counted[0] > before + 1:
                return True
        return False
    finally:
        sys.setswitchinterval(interval)
        done.set()
        thread.join()
