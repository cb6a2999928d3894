# SPDX-License-Identifier: Apache-2.0
"""Random model of one batch: which starts a commit records, and what readers of two output roots then see.

A *start* is one entering of `open_batch`, a *job* one submission of a work, an *incarnation* one driver of a job.
 1. Entering a block writes a begun marker (work, attempt, token, incarnation, start), leaving it well a done marker.
    The token names the try that submitted the job, if it was handed down, and tokens sort as tries do.
 2. A try resolves its starts as its last act and writes an end record (work, attempt, try, starts). It takes the begun
    markers of (work, attempt) with its token. If there are none and it is not sure that its job has its token, it takes
    those of the highest token below its own; no token is the lowest. Of these it takes the incarnation with the highest
    number that the cluster gave it, without a token the one born last. A start of it is not done: the task fails.
 3. Commit (X, m) looks at each work in state success. `e` is its highest attempt with a begun marker or an end record.
    e above m, or e without an end record: refuse. Of several end records of e the one of the highest try counts.
 4. A work with neither is passed over; known to be given the batch: refuse. No counted start at all: refuse, always.
 5. First decision, or m above `decided` and other starts: starts := the counted ones, `decided` := m, roots := old and
    new. After a set-aside one counted start must be of an attempt above `decided`.
 6. A marker (X, `decided`) with the row's starts goes to every root of the row, from the row alone; the highest counts.

The law: a root shows, wholly, what one decision recorded, and never goes back. A decision records for each successful
work all starts of the job that ended well under its last successful try, none older than the last attempt that entered
a block, and never nothing. After a green commit readers see the row. What ended well is not refused.

    python starts.py [rule ...] [-n WALKS] [-s SEED]      each rule: its figures, the shortest trace that breaks it
"""

import argparse
import random
from dataclasses import dataclass

ROOTS = ("r1", "r2")
WORKS = ("a", "b", "a2")  # a2 is task a renamed, b another work or mapped instance
BLOCKS = (("a",), ("a", "b"), ("a", "b"), ("a2",), ("a2", "b"))
SETS = ((), ("r1",), ("r2",), ("r1", "r2"))
PLANS = ((),) * 4 + tuple((x,) for x in SETS) * 2 + tuple((x, y) for x in SETS for y in SETS)
FAULTS = ("lose", "die", "again", "late", "hand", "skip", "aside", "heal", "attach", "crash", "swallow", "freeze")


@dataclass(frozen=True)
class Rule:
    above: bool = True  # what stands above m is seen
    between: bool = True  # a begun marker without an end record is seen
    pick: str = "highest"  # highest | lowest: which of several end records of e
    unfinished: str = "fail"  # fail | drop: a resolved start that is begun and not done
    given: bool = True  # a work that is known to be given the batch needs an end record
    back: str = "unsure"  # never | unsure | always: without markers of its token a try takes others
    below: bool = True  # ... below its own token only
    order: str = "born"  # born | entered: what makes an incarnation the last
    decided: str = "m"  # m | e: the number of a decision
    roots: str = "all"  # all | own: the roots that get a marker, ever written to or by this decision
    aside: bool = True  # a set-aside is ended by a later start only
    nothing: bool = True  # a replay without any start is refused
    outlive: bool = False  # no assumption: an older try may live on though no token is handed down
    fickle: bool = False  # no assumption: of the unsure tries of an attempt one may enter blocks, another none
    kinds: tuple[str, ...] = ("own", "args", "bare")  # who hands the token down: ours, stock (new by try), nobody
    blocks: tuple = BLOCKS
    plans: tuple = PLANS  # for each block of a job the roots that it writes to
    faults: str = ""  # the faults of every walk; none given: a random half of all


ONE = (("a",),)
TWICE = ((("r1",), ("r1",)),)
EITHER = ((("r1",),), (("r2",),))
KEPT = Rule()
ABLATED = {
    "below m only": Rule(above=False, blocks=ONE, faults="freeze"),
    "ended only": Rule(between=False, blocks=ONE, faults="die hand"),
    "lowest try": Rule(pick="lowest", blocks=ONE, faults="lose late"),
    "drop unfinished": Rule(unfinished="drop", blocks=ONE, faults="swallow"),
    "given unknown": Rule(given=False, faults="hand"),
    "never back": Rule(back="never", kinds=("args",), faults="lose attach"),
    "always back": Rule(back="always", kinds=("own",), blocks=ONE, faults="die"),
    "back above": Rule(below=False, kinds=("args",), blocks=ONE, plans=TWICE, faults="lose attach late die hand"),
    "last to enter": Rule(order="entered", blocks=ONE, faults="again"),
    "number e": Rule(decided="e", blocks=(("a",), ("a", "b")), plans=EITHER, faults="heal"),
    "own roots": Rule(roots="own", blocks=ONE, plans=EITHER, faults="crash"),
    "set-aside by any": Rule(aside=False, blocks=ONE, faults="aside"),
    "take nothing": Rule(nothing=False, faults="hand skip"),
    # Known limits: what breaks if an assumption about tries without a sure token is given up.
    "outlive": Rule(outlive=True, kinds=("bare",), blocks=ONE, faults="lose late hand die"),
    "fickle": Rule(fickle=True, kinds=("args",), blocks=ONE, faults="die"),
}
RULES = {"kept": KEPT, "own": Rule(outlive=True, fickle=True, kinds=("own",)), **ABLATED}


class Broken(Exception):
    """The law does not hold."""


class Thing:  # a driver, job, try or commit
    def __init__(self, **fields):
        self.__dict__.update(fields)


class World:
    def __init__(self, rule: Rule, rnd: random.Random):
        self.rule, self.rnd, self.log = rule, rnd, []
        self.say = self.log.append
        self.now = self.attempt = self.m = self.passes = self.tries_made = self.decided = 0
        self.aside, self.rec, self.roots = False, frozenset(), frozenset()
        self.jobs, self.zombies, self.ends, self.commits, self.tries, self.states = [], [], [], [], {}, {}
        self.markers = {root: {0: frozenset()} for root in ROOTS}
        self.history, self.seen = {0: frozenset()}, dict.fromkeys(ROOTS, 0)
        self.on = set(rule.faults.split()) or {fault for fault in FAULTS if rnd.random() < 0.5}
        self.kind = {work: rnd.choice(rule.kinds) for work in WORKS}
        self.given = {work for work in WORKS if rnd.random() < 0.7}
        self.clear()

    def steps(self):
        """What may happen next, as (likelihood, name, function, arguments)."""
        out = [(1, "late", self.end, task, True) for task in self.zombies if task.job.over]
        for work, (state, _) in self.states.items():
            task = self.tries.get(work)
            if task is not None:
                dead = not any(d.alive for d in task.job.drivers)
                out += [
                    (1, "lose", self.settle, work, "failed", "is lost, its try may live on"),
                    (4 * task.job.over, "end", self.end, task),
                ]
                out.append((2 * dead, "fail", self.settle, work, "failed", "fails"))
            elif state in ("none", "failed"):
                job = self.reachable(work)
                out += [(4, "try", self.submit, work), (2 * bool(job), "attach", self.begin, job, "joins")]
                out.append((1, "hand", self.settle, work, "success", "is marked success by hand"))
                out.append((1, "skip", self.settle, work, "skipped", "is skipped"))
        for job in self.jobs:
            for driver in [d for d in job.drivers if d.alive]:
                out += [(2, "run", self.run, driver), (1, "die", self.run, driver, "dies")]
                out.append((driver.inside, "swallow", self.run, driver, "fails in a block and goes on"))
            out.append((0.15 * (len(job.drivers) < 2 and not job.over), "again", self.drive, job))
        states, at_work = {state for state, _ in self.states.values()}, [c for c in self.commits if c.step != "over"]
        out.append((3 * ("success" in states <= {"success", "skipped"} and len(at_work) < 2), "commit", self.commit))
        for commit in at_work:
            out += [(3, "go", self.go_on, commit), (1, "crash", self.leave, commit, "dies")]
        out.append(((0.2 if self.tries else 1) * (self.passes < 5), "clear", self.clear))
        marks = self.row_markers()[: self.rnd.choice((1, 2))]
        return [*out, (1, "heal", self.mark, marks) if self.decided else (0.1, "aside", self.set_aside)]

    def step(self):
        steps = [s for s in self.steps() if s[0] and (s[1] in self.on or s[1] not in FAULTS)]
        if steps:
            _, _, act, *args = self.rnd.choices(steps, [s[0] for s in steps])[0]
            self.now += 1
            act(*args)
            self.law()
        return bool(steps)

    def clear(self):
        self.attempt, self.m, self.passes = self.attempt + 1, self.attempt + 1, self.passes + 1
        block = self.rnd.choice(self.rule.blocks)
        cleared = block if self.rnd.random() < 0.5 else [w for w in block if self.rnd.random() < 0.5]
        for work in [*self.states]:
            if work not in block or work in cleared or self.states[work][0] not in ("success", "skipped"):
                self.zombies += [self.tries.pop(work)] if work in self.tries else []
                del self.states[work]
        self.states |= {work: ("none", 0) for work in block if work not in self.states}
        self.say(f"pass m={self.m}, to do {[w for w in block if self.states[w][0] == 'none']} of {[*block]}")

    def settle(self, work, state, text, m=0):
        self.states[work] = (state, m)
        self.say(f"{work} {text}")
        if work in self.tries:
            self.zombies += [self.tries.pop(work)] * (state == "failed")

    def jobs_of(self, work, m):
        return [job for job in self.jobs if (job.work, job.m) == (work, m)]

    def reachable(self, work):
        """The job that another try may go on with, not a dead one. With a stock operator it is the last job."""
        jobs = self.jobs_of(work, self.m)[0 if self.kind[work] == "own" else -1 :]
        jobs = [job for job in jobs if job.over or any(d.alive for d in job.drivers)]
        return jobs[-1] if jobs and self.m > self.decided else None

    def submit(self, work):
        if self.m <= self.decided:
            return self.settle(work, "success", f"m={self.m} does nothing, well")
        rule, rnd, kind, older = self.rule, self.rnd, self.kind[work], self.jobs_of(work, self.m)
        if kind == "bare" and not rule.outlive:
            self.zombies = [t for t in self.zombies if (t.work, t.m) != (work, self.m)]
            for driver in [d for job in older for d in job.drivers]:
                driver.alive, driver.job.over = False, True
        plan = rnd.choice(rule.plans)
        if kind != "own" and not rule.fickle and older and bool(plan) != bool(older[0].plan):
            plan = older[0].plan
        token = 0 if kind == "bare" else self.tries_made + 1
        job = Thing(id=len(self.jobs) + 1, work=work, m=self.m, token=token, plan=plan, drivers=[], over=False)
        self.jobs.append(job)
        self.begin(job, f"submits {plan} as")
        return self.drive(job)

    def begin(self, job, text):
        self.tries_made += 1
        kind, work, number = self.kind[job.work], job.work, self.tries_made
        token = job.token if kind == "own" or not job.token else number
        task = Thing(work=work, m=job.m, number=number, token=token, job=job, starts=None, sure=kind == "own")
        self.tries[work], self.states[work] = task, ("running", 0)
        self.say(f"try {number} of {work} ({kind}) m={job.m} {text} job{job.id}")

    def end(self, task, late=False):
        """Resolve, write the end record, be seen as successful: three steps."""
        name, resolved = f"try {task.number} of {task.work} m={task.m}", task.starts is not None
        if not resolved:
            task.starts = self.resolved(task)
            self.say(f"{name} resolves {task.starts and sorted(task.starts)}")
            if task.starts is None and task.sure and len(task.job.drivers[-1].done) == len(task.job.plan):
                raise Broken("a task fails whose job ended well")
        elif task not in self.ends:
            self.ends.append(task)
            self.say(f"{name} writes its end record")
        elif not late:
            self.settle(task.work, "success", "is successful", task.m)
        else:
            self.zombies.remove(task)
        if task.starts is None and not late:
            self.settle(task.work, "failed", "fails")

    def resolved(self, task):
        rule = self.rule
        entered = [d for j in self.jobs_of(task.work, task.m) for d in j.drivers if d.begun]
        mine = [d for d in entered if d.job.token == task.token]
        if not mine and (rule.back == "always" or (rule.back == "unsure" and not task.sure)):
            older = [d for d in entered if d.job.token < task.token or not rule.below]
            mine = [d for d in older if d.job.token == max(x.job.token for x in older)]
        if not mine:
            return frozenset()
        born = rule.order == "born"
        last = max(mine, key=lambda d: (d.number if d.job.token else 0, d.born) if born else (d.entered,))
        return None if rule.unfinished == "fail" and last.begun != last.done else self.starts(last)

    def drive(self, job):
        driver = Thing(job=job, number=len(job.drivers) + 1, born=self.now, alive=True, inside=False, at=0, entered=0)
        driver.begun, driver.done = [], []
        job.drivers.append(driver)
        self.say(f"job{job.id}.{driver.number} is born")

    def starts(self, driver):
        return frozenset((driver.job.id, driver.number, block) for block in driver.done)

    def run(self, driver, fault=""):
        job, text = driver.job, "ends well"
        if fault == "dies":
            driver.alive = False
        elif driver.inside:
            driver.inside, text = False, f"has done block {driver.at}"
            driver.done += [] if fault else [driver.at]
            driver.at += 1
        elif driver.at < len(job.plan):
            driver.inside, driver.entered, text = True, driver.entered or self.now, f"enters block {driver.at}"
            driver.begun.append(driver.at)
        else:
            driver.alive, job.over = False, job.over or driver is job.drivers[-1]
        self.say(f"job{job.id}.{driver.number} {fault or text}")

    def commit(self):
        m = self.m
        if "freeze" in self.on and self.rnd.random() < 0.06:  # a zombie of freeze left its number last
            older = m > 1 and self.rnd.random() < 0.5
            self.attempt += not older
            m = m - 1 if older else self.attempt
        self.commits.append(Thing(m=m, states=dict(self.states), step="read", seen=()))
        self.say(f"commit m={m} begins")

    def leave(self, commit, text):
        commit.step = "over"
        self.say(f"commit m={commit.m} {text}")

    def set_aside(self):
        self.decided, self.aside, self.history[self.attempt] = self.attempt, True, frozenset()
        self.say(f"set aside, decided={self.decided}")

    def output(self, starts, root):
        return frozenset(s for s in starts if root in self.jobs[s[0] - 1].plan[s[2]])

    def wrote(self, starts):
        return {root for root in ROOTS if self.output(starts, root)}

    def row_markers(self):
        roots = self.wrote(self.rec) if self.rule.roots == "own" else self.roots
        return [(root, self.decided, self.output(self.rec, root)) for root in sorted(roots)]

    def mark(self, marks):
        for root, number, content in marks:
            self.say(f"marker {root} {number}: {sorted(content)}")
            if self.markers[root].setdefault(number, content) != content:
                raise Broken("a marker of one name with two contents")

    def go_on(self, commit):
        row = (self.decided, self.rec)
        if commit.step == "mark":
            if commit.marks:
                return self.mark([commit.marks.pop()])
            shown = {root: self.markers[root][self.seen[root]] for root in ROOTS}
            if commit.number == self.decided and shown != {root: self.output(self.rec, root) for root in ROOTS}:
                raise Broken(f"after a green commit readers see {shown}, the row has {sorted(self.rec)}")
            return self.leave(commit, "is green")
        if commit.m <= self.decided:
            return self.leave(commit, "refuses: set aside") if self.aside else self.to_mark(commit, "decides nothing")
        if commit.step == "decide" and commit.seen == row:
            return self.decide(commit)
        commit.seen, commit.step, commit.wanted, commit.chosen = row, "decide", self.wanted(commit), self.choose(commit)
        return self.say(f"commit m={commit.m} reads")

    def to_mark(self, commit, text):
        commit.marks, commit.number, commit.step = self.row_markers(), self.decided, "mark"
        self.rnd.shuffle(commit.marks)
        self.say(f"commit m={commit.m} {text}")

    def traces(self, work):
        began = {j.m for j in self.jobs if j.work == work and any(d.begun for d in j.drivers)}
        return began, {end.m for end in self.ends if end.work == work}

    def ends_of(self, work, m):
        return sorted((end for end in self.ends if (end.work, end.m) == (work, m)), key=lambda end: end.number)

    def choose(self, commit):
        rule, out = self.rule, frozenset()
        for work in [w for w, (state, _) in commit.states.items() if state == "success"]:
            began, ended = self.traces(work)
            seen = ended | (began if rule.between else set())
            e = max((m for m in seen if m <= commit.m or rule.above), default=0)
            if e > commit.m or (e and e not in ended) or (not e and rule.given and work in self.given):
                return None
            ends = self.ends_of(work, e)
            out |= ends[-1 if rule.pick == "highest" else 0].starts if ends else frozenset()
        return out

    def decide(self, commit):
        rule, starts = self.rule, commit.chosen
        if starts is None or (not starts and (rule.nothing or not self.rec)):
            self.progress(commit)
            return self.leave(commit, "refuses: " + ("not clear what counts" if starts is None else "nothing finished"))
        newest = max((self.jobs[s[0] - 1].m for s in starts), default=0)
        if self.aside and newest <= self.decided:
            if not rule.aside:
                raise Broken("a set-aside is ended by what ran before it")
            return self.leave(commit, "refuses: nothing newer than the set-aside")
        number = commit.m if rule.decided == "m" else newest
        if starts != self.rec and number > self.decided:
            self.roots |= self.wrote(starts)
            self.aside, self.rec, self.decided, self.history[number] = False, starts, number, starts
        if self.rec != commit.wanted:
            raise Broken(f"a decision records {sorted(self.rec)}, the law wants {sorted(commit.wanted or ['none'])}")
        return self.to_mark(commit, f"has the row say {self.decided}: {sorted(self.rec)}")

    def wanted(self, commit):
        """The starts that a decision has to record; None: any decision is wrong."""
        out = frozenset()
        for work, (state, m) in commit.states.items():
            if state == "success":
                began, ended = self.traces(work)
                ends = self.ends_of(work, m or max((x for x in began | ended if x <= commit.m), default=0))
                last = ends[-1].job.drivers[-1] if ends else None
                if (began or work in self.given) if not last else len(last.done) < len(last.job.plan):
                    return None
                out |= self.starts(last) if last else frozenset()
        return out or None

    def progress(self, commit):
        """A commit is not refused if all its works ended well, with some start, and nothing newer began."""
        won = {work: m for work, (state, m) in commit.states.items() if state == "success"}
        if commit.wanted and all(m == max({0}.union(*self.traces(w))) <= commit.m for w, m in won.items()):
            raise Broken("a commit refuses although all its works ended well")

    def law(self):
        for root in ROOTS:
            number, shown = max(self.markers[root].items(), key=lambda marker: marker[0])
            if number < self.seen[root] or self.output(self.history[number], root) != shown:
                raise Broken(f"{root} shows {sorted(shown)} of {number}, after {self.seen[root]}")
            self.seen[root] = number


def explore(rule: Rule, walks: int, seed: int, depth: int = 80, enough: int = 1_000_000):
    """Walk at random: the number of walks and of steps, and the broken walks, those with the shortest traces first."""
    walk, steps, broken = 0, 0, []
    while walk < walks and len(broken) < enough:
        walk += 1
        world = World(rule, random.Random(seed * 10_000_019 + walk))
        try:
            while world.now < depth and world.step():
                pass
        except Broken as why:
            broken.append((len(world.log), walk, str(why), world.log))
        steps += world.now
    return walk, steps, sorted(broken)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("rule", nargs="*", default=[*RULES], help=", ".join(RULES))
    parser.add_argument("-n", type=int, default=5000, help="walks")
    parser.add_argument("-s", type=int, default=1, help="seed")
    args = parser.parse_args()
    for name in args.rule:
        walks, steps, broken = explore(RULES[name], args.n, args.s)
        print(f"== {name}: {walks} walks, {steps} steps, {len(broken)} walks break the law")
        for _, _, why, log in broken[:1]:
            print(f"  {why}", *log, sep="\n      ")


if __name__ == "__main__":
    main()
