"""Kernels are counted in the text of a compiled program."""

import importlib
from pathlib import Path

WORKERS = Path(__file__).parents[2] / "benchmarks" / "workers"
LOOP = """HloModule jit_update, is_scheduled=true

FunctionNames
1 "<module>"
2 "collect"

FileLocations
1 {file_name_id=1 function_name_id=1 line=1}
2 {file_name_id=1 function_name_id=2 line=2}

StackFrames
1 {file_location_id=1 parent_frame_id=1}
2 {file_location_id=2 parent_frame_id=2}

%short (x: f32[3]) -> f32[3] {
  ROOT %x = f32[3]{0} parameter(0)
}

%long (x.1: f32[3]) -> f32[3] {
  %x.1 = f32[3]{0} parameter(0)
  ROOT %copy = f32[3]{0} copy(%x.1)
}

%body (turn: (s32[], f32[3])) -> (s32[], f32[3]) {
  %turn = (s32[], f32[3]{0}) parameter(0)
  %i = s32[] get-tuple-element(%turn), index=0
  %fusion-start = ((s32[]), s32[], u32[]) fusion-start(%i), kind=kLoop, calls=%add
  %fusion-done = s32[] fusion-done(%fusion-start), kind=kLoop, calls=%add
  %y = f32[3]{0} get-tuple-element(%turn), index=1
  %either = f32[3]{0} conditional(%i, %y, %y), branch_computations={%short, %long}
  ROOT %next = (s32[], f32[3]{0}) tuple(%fusion-done, %either)
}

%limit (turn.1: (s32[], f32[3])) -> pred[] {
  %turn.1 = (s32[], f32[3]{0}) parameter(0)
  ROOT %less = pred[] fusion(%turn.1), kind=kLoop, calls=%compare
}

ENTRY %main (state: (s32[], f32[3])) -> (s32[], f32[3]) {
  %state = (s32[], f32[3]{0}) parameter(0)
  %product = f32[3]{0} custom-call(%state), custom_call_target="__cublas$gemm"
  ROOT %loop = (s32[], f32[3]{0}) while(%state), condition=%limit, body=%body, TURNS stack_frame_id=2
}
"""


def test_kernels_of_a_loop_count_as_often_as_its_turns(monkeypatch):
    monkeypatch.syspath_prepend(WORKERS)
    kernels = importlib.import_module("gpu_kernels").kernels
    known = LOOP.replace("TURNS", 'backend_config={"known_trip_count":{"n":"7"}},')
    assert kernels(known) == [("once per update", 1, 1), ("rollout step", 7, 3)]
    unknown = LOOP.replace("TURNS", "")
    assert kernels(unknown) == [("once per update", 1, 1), ("rollout step", 1, 4)]
