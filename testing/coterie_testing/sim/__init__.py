"""Deterministic simulation of the whole system, with faults, and with its invariants checked.

**What is simulated.** Time, the event loop, sockets, the disk under the store, processes, their
clocks and all randomness are virtual (`coterie_testing.virtual`) and decided by one seed.

**What is real.** The node with its shards, cores, catalogue and journal; connections and every byte
on the wire; `Group` with its membership, tasks and assignors; `Admin`. A worker does what users'
code does: it reads the committed offset of each partition that it is given, works, commits, and
goes on until it is cancelled.

**A run.** `run_from_seed` draws the size of the system and a plan of faults (`faults`). `System` is
what is tested: a coordinator, its workers, a network and a disk. `Simulation` has the
`FaultInjector` carry out the plan, heals everything, waits until the group is well again, checks
it closely, and has all workers leave.

**What is checked.** `invariants.checker.InvariantChecker` stands outside of the system. It is told
what each worker does and each line of the journal at the moment of the event, sees the requests and
answers, and keeps the first violation; the run fails at its next look, a quarter of a second later
at most once the faults are over. The rules are in one module each:

- `checker`: one owner per partition, fencing tokens that grow, commits that are there;
- `journal`: the journal tells a possible history, in which every rebalance has a cause;
- `offsets`: what was committed may only be gone if its topic was deleted;
- `requests`: superseded requests are answered, new member ids are waited for;
- `clock`: no pause of the node counts as silence, no date goes back.

**What is excused.** No protocol can tell a process at once that it was removed. So a worker may
overlap with its successor while it is paused, or until its lease ends after an administrator
removed it or another process took its name (`invariants.exemptions`). Its fencing token must be the
lower one even then.

**How to repeat a run.** `coterie simulate --seed N --runs 1 --profile P --trace` runs a seed again
and prints what happens in it; if it fails, `shrink` leaves out every fault and worker that it fails
without. A seed stands for the same run only as long as the code is the same: drawing one more
random number changes what follows.
"""
