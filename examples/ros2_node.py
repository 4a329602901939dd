"""A ROS 2 node that plays a trained policy.

    hindsight export runs/FetchReach-v4-ddpg-seed0 -o policy.onnx
    python ros2_node.py --ros-args -p policy:=policy.onnx -p rate:=25.0

It reads `observation` and `desired_goal` (std_msgs/Float64MultiArray) and publishes `action` at a
fixed rate. Your own nodes turn measurements into observations, and actions into commands. All
that decides is in `Controller`, which needs no ROS.
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
        self._observation: np.ndarray | None = None
        self._goal: np.ndarray | None = None
        self._seen = -np.inf
        self._last = self.rest

    def observe(self, values: Any) -> None:
        """The newest observation, in the env's order and units."""
        self._observation, self._seen = self._checked(values, self.policy.observation.shape)

    def aim(self, values: Any) -> None:
        """The goal to pursue from now on."""
        self._goal, _ = self._checked(values, self.policy.goal.shape)

    def tick(self) -> np.ndarray:
        """The action to take now."""
        self.why = self._missing()
        wanted = self.rest
        if not self.why:
            wanted = self.policy({"observation": self._observation, "desired_goal": self._goal})
        change = np.clip(wanted - self._last, -self.max_change, self.max_change)
        self._last = self.policy.actions.inside(self._last + change)
        return self._last

    def _missing(self) -> str:
        if self._observation is None:
            return "no observation yet"
        if self._goal is None:
            return "no goal yet"
        if self.clock() - self._seen > self.max_age:
            return "the last observation is too old"
        if not (np.isfinite(self._observation).all() and np.isfinite(self._goal).all()):
            return "the observation or the goal is not finite"
        return ""

    def _checked(self, values: Any, shape: tuple[int, ...]) -> tuple[np.ndarray, float]:
        array = np.asarray(values, np.float64)
        if array.size != np.prod(shape):
            raise ValueError(f"expected {int(np.prod(shape))} numbers, got {array.size}")
        return array.reshape(shape), self.clock()


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
            for topic, use in (
                ("observation", self.controller.observe),
                ("desired_goal", self.controller.aim),
            ):
                self.create_subscription(
                    Float64MultiArray,
                    topic,
                    lambda message, use=use: use(message.data),
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
