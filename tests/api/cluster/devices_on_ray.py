"""Program that measures on a device in tasks of two projects: ADDRESS FOLDER WAIT HOLD DEVICE..."""

from __future__ import annotations

import json
import os
import sys
import time

from esper_agents.api.cluster.connection import connect
from esper_agents.api.cluster.device_reservation import RayDevices


def measured(project, home, device, timeout_s, held_s):
    """Hold a device for a moment, as a measurement does; return its times, or the error."""
    import ray

    from esper_agents.errors import EsperError
    from esper_agents.storage.database_url import database_url
    from esper_agents.storage.store import Store
    from esper_agents.tools.device_turn import device_turn, use_reservation

    # Without the lock of the data directory, only Ray and the database are left.
    os.environ["ESPER_HOME"] = home
    use_reservation(RayDevices(0, {"fpga": 1}).reserve)
    store = Store(database_url(None))
    try:
        with device_turn(device, store=store, project_key=project, timeout_s=timeout_s):
            began, free = time.monotonic(), ray.available_resources().get("fpga", 0.0)
            time.sleep(held_s)
            return project, began, time.monotonic(), free
    except EsperError as error:
        return project, error.problem, error.remedy, -1.0
    finally:
        store.close()


def main(address, folder, timeout_s, held_s, *devices):
    with connect(address):
        import ray

        task = ray.remote(measured).options(num_cpus=1, max_retries=0)
        running = [
            task.remote(f"project-{number % 2}", f"{folder}/home-{number}", device, float(timeout_s), float(held_s))
            for number, device in enumerate(devices)
        ]
        found = ray.get(running)
        time.sleep(1.0)
        left = ray.available_resources().get("fpga", 0.0)
    sys.stdout.write(json.dumps({"measured": found, "left": left}))


if __name__ == "__main__":
    main(*sys.argv[1:])
