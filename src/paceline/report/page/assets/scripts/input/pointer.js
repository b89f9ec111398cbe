// Mouse and touch on the lanes and on the overview: drag, pinch, wheel, tap and hover.

import { requestDrawing } from "../frame.js";
import { laneAt, toggleBlock } from "../lanes.js";
import { state } from "../state.js";
import { pan, setView, toValue, wholeView, zoom } from "../view.js";
import { callAt, hideTip, showTip } from "./details.js";
import { select } from "./selection.js";

const DRAG_PIXELS = 4; // less is a click
const MOST_WHEEL = 60; // of one turn: mice and touchpads differ much

export function startPointer() {
  const { box } = state.surface;
  new LanePointer(box).listen();
  box.addEventListener("dblclick", (event) => zoom(0.4, toValue(pointOf(event)[0])));
  box.addEventListener("wheel", turnWheel, { passive: false });
  box.addEventListener("scroll", () => {
    hideTip();
    requestDrawing();
  });
  startOverview();
}

function pointOf(event) {
  const box = state.surface.canvas.getBoundingClientRect();
  return [event.clientX - box.left, event.clientY - box.top];
}

function turnWheel(event) {
  if (event.ctrlKey || event.metaKey) {
    event.preventDefault();
    const turn = Math.max(-MOST_WHEEL, Math.min(MOST_WHEEL, event.deltaY));
    zoom(Math.exp(turn * 0.012), toValue(pointOf(event)[0]));
  } else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
    event.preventDefault();
    pan((event.deltaX || event.deltaY) / state.width);
  }
}

// Fingers or buttons that are down on the lanes, and what they do there.
class LanePointer {
  constructor(box) {
    this.box = box;
    this.points = new Map(); // by pointer
    this.gesture = null; // the view and the points when it began
  }

  listen() {
    this.box.addEventListener("pointerdown", (event) => this.press(event));
    this.box.addEventListener("pointermove", (event) => this.move(event));
    this.box.addEventListener("pointerup", (event) => this.release(event));
    this.box.addEventListener("pointercancel", (event) => this.release(event));
    this.box.addEventListener("pointerleave", () => this.setHover(null));
  }

  press(event) {
    const isOnScrollbar = event.target === this.box && event.offsetX > this.box.clientWidth;
    if (event.button > 0 || isOnScrollbar) {
      return;
    }
    this.points.set(event.pointerId, pointOf(event));
    this.gesture = { view: state.view, begin: pointOf(event), hasMoved: false };
    if (this.points.size === 2) {
      this.gesture.pinch = this.pinch();
    }
  }

  move(event) {
    const [x, y] = pointOf(event);
    if (!this.gesture || !this.points.has(event.pointerId)) {
      this.setHover(callAt(x, y), x, y);
      return;
    }
    this.points.set(event.pointerId, [x, y]);
    if (this.points.size === 2 && this.gesture.pinch) {
      this.zoomByPinch();
    } else if (this.gesture.hasMoved || Math.abs(x - this.gesture.begin[0]) > DRAG_PIXELS) {
      this.drag(event.pointerId, x);
    }
  }

  release(event) {
    if (!this.points.delete(event.pointerId) || !this.gesture) {
      return;
    }
    const { hasMoved } = this.gesture;
    this.box.classList.remove("is-held");
    const [rest] = this.points.values(); // of two fingers, the other goes on alone
    this.gesture = rest ? { view: state.view, begin: rest, hasMoved: true } : null;
    if (!hasMoved && event.type === "pointerup") {
      this.click(event);
    }
  }

  click(event) {
    const [x, y] = pointOf(event);
    const lane = laneAt(y);
    if (lane && lane.isBlock) {
      toggleBlock(lane);
      return;
    }
    const target = callAt(x, y);
    if (target) {
      select(target);
    }
    if (event.pointerType !== "mouse") {
      this.setHover(target, x, y);
    }
  }

  setHover(target, x, y) {
    state.hover = target;
    showTip(target, x, y);
    this.box.style.cursor = target ? "pointer" : "";
    requestDrawing();
  }

  drag(pointerId, x) {
    const { gesture } = this;
    if (!gesture.hasMoved) {
      gesture.hasMoved = true;
      this.box.setPointerCapture(pointerId);
      this.box.classList.add("is-held");
      hideTip();
    }
    const { x0, x1 } = gesture.view;
    const distance = ((gesture.begin[0] - x) * (x1 - x0)) / (state.width - state.gutter);
    setView(x0 + distance, x1 + distance);
  }

  // What lay under the middle of the fingers stays there.
  zoomByPinch() {
    const { view, pinch } = this.gesture;
    const now = this.pinch();
    const wide = state.width - state.gutter;
    const span = ((view.x1 - view.x0) * pinch.span) / now.span;
    const around = view.x0 + ((pinch.middle - state.gutter) / wide) * (view.x1 - view.x0);
    const left = around - ((now.middle - state.gutter) / wide) * span;
    this.gesture.hasMoved = true;
    setView(left, left + span);
  }

  pinch() {
    const [[one], [other]] = this.points.values();
    return { span: Math.max(10, Math.abs(one - other)), middle: (one + other) / 2 };
  }
}

// On the overview, the window follows the pointer.
function startOverview() {
  const { overview } = state.surface;
  let isMoving = false;
  const moveWindow = (event) => {
    const box = overview.getBoundingClientRect();
    const whole = wholeView();
    const middle = whole.x0 + ((event.clientX - box.left) / box.width) * (whole.x1 - whole.x0);
    const half = (state.view.x1 - state.view.x0) / 2;
    setView(middle - half, middle + half);
  };
  overview.addEventListener("pointerdown", (event) => {
    isMoving = true;
    overview.setPointerCapture(event.pointerId);
    moveWindow(event);
  });
  overview.addEventListener("pointermove", (event) => {
    if (isMoving) {
      moveWindow(event);
    }
  });
  for (const name of ["pointerup", "pointercancel"]) {
    overview.addEventListener(name, () => {
      isMoving = false;
    });
  }
}
