"""``warpfold.run``: PTX on the virtual GPU."""

import signal
import threading
import time

import numpy as np
import pytest

import warpfold
from kernels import ENDLESS, RACE, VECTOR_ADD


def arrays(n=1000):
    a = np.arange(n, dtype=np.float32)
    return a, 2 * a, np.zeros_like(a)


def test_outputs_are_written_in_place_and_are_in_the_report():
    a, b, c = arrays()
    report = warpfold.run(VECTOR_ADD, "add", 8, 128, [a, b, c, a.size])
    assert np.array_equal(c, 3 * a)
    assert report.outputs[2] is c and len(report.outputs) == 3
    assert report.ok and not report.findings and not report.aborted
    assert "no findings" in str(report)


def test_counters_are_those_of_the_program():
    a, b, c = arrays(1024)
    counters = warpfold.run(VECTOR_ADD, None, (8, 1, 1), (128,), [a, b, c, a.size]).counters
    assert counters.global_load_requests == counters["global_load_requests"] == 64
    assert counters.global_load_sectors == 4 * 64 and counters.global_store_sectors == 4 * 32
    assert counters.divergent_branches == 0
    with pytest.raises(AttributeError, match="no counter 'cycles'"):
        counters.cycles  # noqa: B018


def test_counters_of_instructions_add_up():
    a, b, c = arrays(1024)
    report = warpfold.run(VECTOR_ADD, "add", 8, 128, [a, b, c, a.size], instructions=True)
    assert sum(i.executions for i in report.instructions) == report.counters.warp_instructions
    assert any(i.instruction.startswith("st.global") and i.sectors == 128 for i in report.instructions)


def test_a_time_is_predicted_where_it_is_asked_for():
    a, b, c = arrays(1 << 16)
    assert warpfold.run(VECTOR_ADD, "add", 512, 128, [a, b, c, a.size]).prediction is None
    report = warpfold.run(VECTOR_ADD, "add", 512, 128, [a, b, c, a.size], predict="h200")
    predicted = report.prediction
    assert predicted.low < predicted.seconds < predicted.high and predicted.gpu == "h200"
    assert predicted.binds == next(iter(predicted.parts)) and predicted.binds != predicted.next
    assert predicted.text in str(report) and 0 < predicted.median_error < 1
    with pytest.raises(warpfold.ArgumentError, match="predict: "):
        warpfold.run(VECTOR_ADD, "add", 512, 128, [a, b, c, a.size], predict="v100")


def test_an_overrun_is_found_and_names_the_array():
    a, b, c = arrays()
    report = warpfold.run(VECTOR_ADD, "add", 8, 128, [a, b, c, a.size + 1])
    assert {finding.kind for finding in report.errors} == {"out_of_bounds"}
    assert [f.place for f in report.findings] == [f"0 bytes past the end of {name} (4000 bytes)" for name in "abc"]
    with pytest.raises(warpfold.FindingsError, match="out_of_bounds") as error:
        warpfold.run(VECTOR_ADD, "add", 8, 128, [a, b, c, a.size + 1], check="deny")
    assert error.value.report.errors


def test_an_output_that_is_read_before_it_is_written_is_found():
    a, b, _ = arrays()
    out = warpfold.Out(a.shape, np.float32)
    assert warpfold.run(VECTOR_ADD, "add", 8, 128, [a, b, out, a.size]).ok
    assert np.array_equal(out.array, 3 * a)
    report = warpfold.run(VECTOR_ADD, "add", 8, 128, [a, warpfold.Out(a.shape), b, a.size])
    assert [finding.kind for finding in report.findings] == ["uninitialized", "host_read"]


def test_elements_of_an_output_that_no_kernel_wrote_are_found_when_they_are_read_back():
    a, b, _ = arrays()
    out = warpfold.Out(a.shape, np.float32)
    report = warpfold.run(VECTOR_ADD, "add", 8, 128, [a, b, out, a.size - 3])
    (found,) = report.findings
    assert found.kind == "host_read" and not found.is_error and "12 of 4000 bytes" in str(found), str(found)
    assert "c+0xf94" in found.place and np.array_equal(out.array[:-3], 3 * a[:-3])
    # The host may know how many there are.
    assert warpfold.run(VECTOR_ADD, "add", 8, 128, [a, b, warpfold.Out(a.shape), a.size - 3], check="deny").ok
    with pytest.raises(warpfold.FindingsError, match="host_read"):
        warpfold.run(VECTOR_ADD, "add", 8, 128, [a, b, warpfold.Out(a.shape), 0], check="deny")
    assert warpfold.run(VECTOR_ADD, "add", 8, 128, [a, b, warpfold.Out(a.shape), a.size - 3], check="none").ok


def test_what_lies_between_the_elements_of_an_output_need_not_be_written():
    base = np.zeros((8, 4), np.float32)
    a = np.arange(4, dtype=np.float32)
    row = warpfold.Out(base[2])
    assert warpfold.run(VECTOR_ADD, "add", 1, 32, [a, a, row, 4]).ok
    report = warpfold.run(VECTOR_ADD, "add", 1, 32, [a, a, warpfold.Out(base[:, :1]), 1])
    assert [finding.kind for finding in report.findings] == ["host_read"]


def test_a_race_is_found_with_both_sides_and_their_source_lines():
    report = warpfold.run(RACE, "race", 1, None, [np.zeros(1, np.uint32)])
    races = [finding for finding in report.findings if finding.kind in ("race", "warp_sync")]
    assert {(race.file, race.line, race.other.line) for race in races} >= {("made_up.py", 9, 8)}
    assert any("at made_up.py:9 (PTX line" in str(race) and "other side: made_up.py:8" in str(race) for race in races)


def test_views_keep_their_strides_and_what_lies_between():
    base = np.zeros(4000, np.float32)
    a, b, _ = arrays(4)
    warpfold.run(VECTOR_ADD, "add", 1, 32, [a + 1, b, base[100:], 4])
    assert np.array_equal(base[98:106], [0, 0, 1, 4, 7, 10, 0, 0])


def test_arrays_that_share_memory_share_it_on_the_device():
    a = np.arange(64, dtype=np.float32)
    warpfold.run(VECTOR_ADD, "add", 1, 64, [a, a, a, 64])
    assert np.array_equal(a, 2 * np.arange(64))


def test_an_array_that_cannot_be_written_is_copied():
    a, b, c = arrays(64)
    c.flags.writeable = False
    report = warpfold.run(VECTOR_ADD, "add", 1, 64, [a, b, c, 64])
    assert not c.any() and np.array_equal(report.outputs[2], 3 * a)


def test_what_has_dlpack_is_an_array():
    class Other:
        def __init__(self, array):
            self.array = array

        def __dlpack__(self, **options):
            return self.array.__dlpack__(**options)

        def __dlpack_device__(self):
            return self.array.__dlpack_device__()

    a, b, c = arrays(64)
    report = warpfold.run(VECTOR_ADD, "add", 1, 64, [Other(a), Other(b), Other(c), 64])
    assert np.array_equal(report.outputs[2], 3 * a)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ([1, 2, 3], r"kernel add has 4 parameters \(a: 8 bytes, .*\), but 3 arguments are given"),
        ([None, None, None, 1.5], r"parameter 4 \(n\) is declared as u32 of 4 bytes, but the float 1.5"),
        ([None, None, None, np.zeros(4)], r"parameter 4 \(n\) .* but the address of an array is given"),
        ([None, None, None, 1 << 40], r"parameter 4 \(n\) has 4 bytes, into which 1099511627776 does not fit"),
        ([None, None, None, np.int64(3)], r"parameter 4 \(n\) .* but a int64 of 8 bytes is given"),
        ([None, None, None, b"12"], r"parameter 4 \(n\) .* but a bytes of 2 bytes is given"),
        ([None, None, None, {}], r"parameter 4 \(n\): a dict is neither an array nor a number nor bytes"),
        ([np.array([{}]), None, None, 1], "a is an array of Python objects"),
    ],
)
def test_arguments_that_do_not_fit_are_explained(args, message):
    with pytest.raises(warpfold.ArgumentError, match=message):
        warpfold.run(VECTOR_ADD, "add", 1, 64, args)


def test_programs_and_launches_that_cannot_be_are_refused_with_the_simulators_sentence():
    with pytest.raises(warpfold.PtxError, match="PTX syntax error at 1:1: expected `.version`, found `this`"):
        warpfold.run("this is\nno PTX", None, 1, 1, [])
    with pytest.raises(warpfold.LaunchError, match="no kernel named 'sub'; the module has: add"):
        warpfold.run(VECTOR_ADD, "sub", 1, 1, [None] * 4)
    with pytest.raises(warpfold.LaunchError, match="cannot launch add: block .* has 2048 threads"):
        warpfold.run(VECTOR_ADD, "add", 1, 2048, [None, None, None, 1])
    with pytest.raises(warpfold.ArgumentError, match="grid 0: 0 is not a whole number from 1"):
        warpfold.run(VECTOR_ADD, "add", 0, 1, [None] * 4)
    with pytest.raises(warpfold.ArgumentError, match="block must be given"):
        warpfold.run(VECTOR_ADD, "add", 1, None, [None] * 4)
    with pytest.raises(warpfold.ArgumentError, match="check is 'all', 'deny' or 'none', not 'some'"):
        warpfold.run(VECTOR_ADD, "add", 1, 1, [None] * 4, check="some")
    with pytest.raises(warpfold.ArgumentError, match="unknown architecture 'sm_70'"):
        warpfold.run(VECTOR_ADD, "add", 1, 1, [None] * 4, arch="sm_70")
    with pytest.raises(FileNotFoundError):
        warpfold.run("missing.ptx", "add", 1, 1, [])


def test_a_file_is_named_instead_of_its_text(tmp_path):
    path = tmp_path / "add.ptx"
    path.write_text(VECTOR_ADD)
    a, b, c = arrays(32)
    for name in (path, str(path)):
        assert warpfold.run(name, "add", 1, 32, [a, b, c, 32]).ok


def test_a_trap_is_an_exception():
    trap = VECTOR_ADD.replace("done:", "done:\n    trap;")
    with pytest.raises(warpfold.TrapError, match="kernel add trapped at line"):
        warpfold.run(trap, "add", 1, 32, [*arrays(32), 32])


@pytest.fixture
def interrupts():
    """Ctrl-C raises KeyboardInterrupt, as in a terminal. Shells have jobs in the background ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_a_long_run_lets_other_threads_run_and_is_interrupted(interrupts):
    ticks = []

    def tick():
        for _ in range(20):
            ticks.append(time.monotonic())
            time.sleep(0.01)
        signal.raise_signal(signal.SIGINT)

    thread = threading.Thread(target=tick)
    start = time.monotonic()
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        warpfold.run(ENDLESS, "endless", 4, 32, [np.zeros(1, np.uint32)], check="none")
    thread.join()
    assert len(ticks) == 20 and time.monotonic() - start < 10


def test_an_endless_loop_ends_at_the_limit():
    report = warpfold.run(ENDLESS, "endless", 1, 32, [np.zeros(1, np.uint32)], limit=100_000)
    assert report.aborted and [finding.kind for finding in report.errors] == ["deadlock"]


def test_a_long_operator_of_tensors_is_interrupted_and_the_device_goes_on(interrupts):
    device = warpfold.Device("virtual")
    device.set_checks("all")
    matrix = warpfold.Tensor(np.ones((1024, 1024), np.float32), device=device)
    ticks = []

    def tick():
        for _ in range(10):
            ticks.append(time.monotonic())
            time.sleep(0.02)
        signal.raise_signal(signal.SIGINT)

    thread = threading.Thread(target=tick)
    start = time.monotonic()
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        for _ in range(1000):
            matrix.matmul(matrix).numpy()
    thread.join()
    assert len(ticks) == 10 and time.monotonic() - start < 20
    device.set_checks("none")
    small = warpfold.Tensor(np.ones((4, 4), np.float32), device=device)
    assert (small @ small).sum().item() == 64
