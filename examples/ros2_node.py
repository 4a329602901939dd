"""A ROS 2 node that plays a trained policy.

    hindsight export runs/FetchReach-v4-ddpg-seed0 -o policy.onnx
    python ros2_node.py --ros-args -p policy:=policy.onnx -p rate:=25.0

It reads `observation` and `desired_goal` (std_msgs/Float64MultiArray), and `achieved_goal` if the
policy needs it, and publishes `action` at a fixed rate. Your own nodes turn measurements into
observations, and actions into commands. All that decides is in `Controller`, which needs no ROS.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

import hindsight.deploy


class Controller:
    """One action per tick, inside the limits; the rest action if it does not know enough to act."""

    def __init__(
        self,
        policy: hindsight.deploy.DeployedPolicy,
        max_age: float = 0.1,
        max_change: float = np.inf,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if policy.actions.discrete:
            raise ValueError(f"{policy!r} has discrete actions: this node is for continuous ones")
        self.policy = policy
        self.max_age = max_age
        """Seconds after which an observation is too old to act on."""
        self.max_change = max_change
        """Of each number of the action, from one tick to the next."""
        self.clock = clock
        self.rest = policy.actions.inside(np.zeros(policy.actions.dim, np.float32))
        """Taken while there is nothing to act on. For actions that are movements: stand still."""
        self.why = "no observation yet"
        """Why it rests; empty if it acts."""
        self.inputs = hindsight.deploy.inputs_of(policy)
        """What it must be told."""
        self._told: dict[str, np.ndarray] = {}
        self._when: dict[str, float] = {}
        self._last = self.rest

    def tell(self, name: str, values: Any) -> None:
        """The newest observation, in the env's order and units; the newest achieved goal, if it is
        among the inputs; or the goal to pursue from now on."""
        shape = self.inputs[name].shape
        array = np.asarray(values, np.float64)
        if array.size != np.prod(shape):
            raise ValueError(f"{name}: expected {int(np.prod(shape))} numbers, got {array.size}")
        self._told[name], self._when[name] = array.reshape(shape), self.clock()

    def tick(self) -> np.ndarray:
        """The action to take now."""
        self.why = self._missing()
        wanted = self.rest
        if not self.why:
            wanted = self.policy(self._told)
        change = np.clip(wanted - self._last, -self.max_change, self.max_change)
        self._last = self.policy.actions.inside(self._last + change)
        return self._last

    def _missing(self) -> str:
        for name in self.inputs:
            if name not in self._told:
                return f"no {name} yet"
            if name != "desired_goal" and self.clock() - self._when[name] > self.max_age:
                return f"the last {name} is too old"
            if not np.isfinite(self._told[name]).all():
                return f"{name} is not finite"
        return ""


def main() -> None:
    import rclpy
    from rclpy.node import Node
    from rclpy.qos import qos_profile_sensor_data
    from std_msgs.msg import Float64MultiArray

    class PolicyNode(Node):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__("hindsight_policy")
            path = self.declare_parameter("policy", "policy.onnx").value
            rate = self.declare_parameter("rate", 25.0).value
            max_change = self.declare_parameter("max_change", 0.5).value
            self.controller = Controller(hindsight.deploy.load(path), 2.5 / rate, max_change)
            self.action = self.create_publisher(Float64MultiArray, "action", 1)
            for name in self.controller.inputs:
                self.create_subscription(
                    Float64MultiArray,
                    name,
                    lambda message, name=name: self.controller.tell(name, message.data),
                    qos_profile_sensor_data,
                )
            self.create_timer(1.0 / rate, self.act)

        def act(self) -> None:
            action = self.controller.tick()
            if self.controller.why:
                self.get_logger().warning(
                    f"at rest: {self.controller.why}", throttle_duration_sec=1.0
                )
            self.action.publish(Float64MultiArray(data=action.tolist()))

    rclpy.init()
    node = PolicyNode()
    try:
        rclpy.spin(node)
    finally:
        node.destroy_node()
        rclpy.try_shutdown()


if __name__ == "__main__":
    main()
