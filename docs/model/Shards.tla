------------------------------- MODULE Shards -------------------------------
(* One shard of a store that several nodes share: who may write to it, and what its clients may  *)
(* be told.  Shards do not touch each other, so one is enough.                                   *)
(*                                                                                               *)
(* A node owns the shard by a lease, which is a row in the database.  Claiming it raises the     *)
(* row's epoch.  An append names the epoch under which its node read the shard, and the database *)
(* refuses it, in the same transaction, when the epoch has passed.  The database may fail over   *)
(* to a replica that lacks its last transactions; so it has a timeline, which the replica begins *)
(* anew, and what fences is the pair of both.                                                    *)
(*                                                                                               *)
(* Nodes pause, crash, come back, and lose messages: any step of theirs may come arbitrarily     *)
(* late.  What can go wrong is bounded by budgets, so that there is an end to it.                *)
(*                                                                                               *)
(* TLC, of tla2tools, checks it: java -cp tla2tools.jar tlc2.TLC -config Shards.cfg Shards.tla    *)
(* With EpochFences or TrustFromAsking set to FALSE it finds a fault within seconds; with         *)
(* Synchronous set to FALSE, TimelineFences and GraceAfterFailover are needed as well.            *)
EXTENDS Integers, Sequences, FiniteSets

CONSTANTS
    Nodes,          \* who shares the shard
    None,           \* no node
    Lease,          \* how long a lease lasts, in ticks
    Writes,         \* how many appends there are at most
    Crashes,        \* how often a node may crash
    Lapses,         \* how often a lease may run out under a node that is up
    Failovers,      \* how often the database may fail over
    Synchronous,    \* whether a transaction is on the replica before it is acknowledged
    EpochFences,    \* whether the database compares epochs
    TimelineFences, \* whether it compares timelines
    GraceAfterFailover, \* whether leases begin anew on a replica that takes over
    TrustFromAsking \* whether a node counts its lease from before it asked, less a margin

VARIABLES
    db,        \* what the database holds: owner, epoch, timeline of the row, ticks left, log
    timeline,  \* which life of the database this is
    replica,   \* what its replica holds
    node,      \* what each node knows
    appends,   \* appends on their way to the database
    done,      \* appends that were stored, whose answers are on their way
    acked,     \* what clients were promised
    stale,     \* whether a client was ever told less than had been promised before
    budget     \* what may still go wrong

vars == <<db, timeline, replica, node, appends, done, acked, stale, budget>>

Range(s) == {s[i] : i \in DOMAIN s}
Plain(kind) == [kind |-> kind, epoch |-> 0, timeline |-> 0, log |-> <<>>]
NoAnswer == Plain("none")
Down == [state |-> "down", epoch |-> 0, timeline |-> 0, trust |-> 0, asking |-> 0,
         answer |-> NoAnswer, log |-> <<>>]
Idle == [Down EXCEPT !.state = "idle"]

Init ==
    /\ db = [owner |-> None, epoch |-> 0, timeline |-> 1, left |-> 0, log |-> <<>>]
    /\ timeline = 1
    /\ replica = db
    /\ node = [n \in Nodes |-> Idle]
    /\ appends = {} /\ done = {} /\ acked = {} /\ stale = FALSE
    /\ budget = [writes |-> Writes, crashes |-> Crashes, lapses |-> Lapses,
                 failovers |-> Failovers]

Replicated(new) == replica' = IF Synchronous THEN new ELSE replica

-------------------------------------------------------------------------------
(* Leases.  A node asks; the database decides; the answer arrives.  Each is a step of its own.   *)

Up(n) == node[n].state # "down"

Ask(n) ==
    /\ Up(n) /\ node[n].asking = 0 /\ node[n].answer = NoAnswer
    /\ node' = [node EXCEPT ![n].asking = Lease]
    /\ UNCHANGED <<db, timeline, replica, appends, done, acked, stale, budget>>

Holds(n) == /\ db.owner = n /\ db.epoch = node[n].epoch
            /\ TimelineFences => timeline = node[n].timeline

(* A replica that has just taken over may not know the last renewals: the first node that notices *)
(* the new timeline gives the lease its whole length once more.                                  *)
Grace == GraceAfterFailover /\ db.timeline # timeline

Decide(n) ==
    /\ node[n].asking > 0 /\ node[n].answer = NoAnswer
    /\ IF Grace
       THEN /\ db' = [db EXCEPT !.timeline = timeline, !.left = Lease]
            /\ node' = [node EXCEPT ![n].answer = Plain("no")]
       ELSE IF Holds(n)
       THEN /\ db' = [db EXCEPT !.left = Lease]
            /\ node' = [node EXCEPT ![n].answer = Plain("renewed")]
       ELSE IF db.left = 0
       THEN /\ db' = [db EXCEPT !.owner = n, !.epoch = @ + 1, !.left = Lease,
                                !.timeline = timeline]
            \* It reads the shard in the same breath: nothing is appended in between.
            /\ node' = [node EXCEPT ![n].answer = [kind |-> "claimed", epoch |-> db.epoch + 1,
                                                   timeline |-> timeline, log |-> db.log]]
       ELSE /\ db' = db
            /\ node' = [node EXCEPT ![n].answer = Plain("no")]
    /\ Replicated(db')
    /\ UNCHANGED <<timeline, appends, done, acked, stale, budget>>

Trust(n) == IF TrustFromAsking THEN node[n].asking - 1 ELSE Lease

Hear(n) ==
    /\ Up(n) /\ node[n].answer # NoAnswer
    /\ LET answer == node[n].answer IN
       node' = [node EXCEPT ![n] =
         CASE answer.kind = "renewed" -> [@ EXCEPT !.asking = 0, !.answer = NoAnswer, !.trust = Trust(n)]
           [] answer.kind = "no"      -> [@ EXCEPT !.asking = 0, !.answer = NoAnswer,
                                              !.state = "idle", !.trust = 0, !.log = <<>>]
           [] OTHER              -> [@ EXCEPT !.asking = 0, !.answer = NoAnswer,
                                              !.state = "serving", !.trust = Trust(n),
                                              !.epoch = answer.epoch,
                                              !.timeline = answer.timeline, !.log = answer.log]]
    /\ UNCHANGED <<db, timeline, replica, appends, done, acked, stale, budget>>

(* A message is lost, or its node waits for it no longer. *)
GiveUp(n) ==
    /\ Up(n) /\ node[n].asking > 0
    /\ budget.lapses > 0
    /\ budget' = [budget EXCEPT !.lapses = @ - 1]
    /\ node' = [node EXCEPT ![n].asking = 0, ![n].answer = NoAnswer]
    /\ UNCHANGED <<db, timeline, replica, appends, done, acked, stale>>

-------------------------------------------------------------------------------
(* Appends.  What an append says, its node knows from then on; its client hears when it is       *)
(* stored.                                                                                       *)

Trusts(n) == node[n].state = "serving" /\ node[n].trust > 0

Write(n) ==
    /\ Trusts(n) /\ budget.writes > 0
    /\ LET append == [by |-> n, what |-> budget.writes, epoch |-> node[n].epoch,
                      timeline |-> node[n].timeline] IN
       /\ appends' = appends \cup {append}
       /\ node' = [node EXCEPT ![n].log = Append(@, append.what)]
    /\ budget' = [budget EXCEPT !.writes = @ - 1]
    /\ UNCHANGED <<db, timeline, replica, done, acked, stale>>

Passes(append) ==
    /\ EpochFences => append.epoch = db.epoch
    /\ TimelineFences => append.timeline = timeline

Store(append) ==
    /\ append \in appends
    /\ appends' = appends \ {append}
    /\ IF Passes(append)
       THEN db' = [db EXCEPT !.log = Append(@, append.what)] /\ done' = done \cup {append}
       ELSE db' = db /\ done' = done
    /\ Replicated(db')
    /\ UNCHANGED <<timeline, node, acked, stale, budget>>

Promise(append) ==
    /\ append \in done
    /\ done' = done \ {append}
    /\ acked' = acked \cup {append.what}
    /\ UNCHANGED <<db, timeline, replica, node, appends, stale, budget>>

(* A question that needs no write is answered from memory, under the trust in the lease alone.   *)
Answer(n) ==
    /\ Trusts(n)
    /\ ~stale
    /\ stale' = ~(acked \subseteq Range(node[n].log))
    /\ stale'   \* an answer that tells all changes nothing
    /\ UNCHANGED <<db, timeline, replica, node, appends, done, acked, budget>>

-------------------------------------------------------------------------------
(* What goes wrong, and time.                                                                    *)

Crash(n) ==
    /\ Up(n) /\ budget.crashes > 0
    /\ budget' = [budget EXCEPT !.crashes = @ - 1]
    /\ node' = [node EXCEPT ![n] = Down]
    \* What it has sent may still arrive, and nobody waits for what was stored.
    /\ done' = {each \in done : each.by # n}
    /\ UNCHANGED <<db, timeline, replica, appends, acked, stale>>

Start(n) ==
    /\ ~Up(n)
    /\ node' = [node EXCEPT ![n] = Idle]
    /\ UNCHANGED <<db, timeline, replica, appends, done, acked, stale, budget>>

Replicate ==
    /\ replica # db
    /\ replica' = db
    /\ UNCHANGED <<db, timeline, node, appends, done, acked, stale, budget>>

Failover ==
    /\ budget.failovers > 0
    /\ budget' = [budget EXCEPT !.failovers = @ - 1]
    /\ db' = replica
    /\ timeline' = timeline + 1
    /\ UNCHANGED <<replica, node, appends, done, acked, stale>>

Less(ticks) == IF ticks = 0 THEN 0 ELSE ticks - 1

(* A lease that runs out under its owner has run out because something was late.                 *)
IsLapse == db.left = 1 /\ db.owner # None /\ node[db.owner].state = "serving" /\ Holds(db.owner)

Tick ==
    /\ IsLapse => budget.lapses > 0
    /\ budget' = [budget EXCEPT !.lapses = IF IsLapse THEN @ - 1 ELSE @]
    /\ db' = [db EXCEPT !.left = Less(@)]
    \* The replica's lease is a moment of the database's clock, so it runs out as well.
    /\ replica' = [replica EXCEPT !.left = Less(@)]
    /\ node' = [n \in Nodes |-> [node[n] EXCEPT !.trust = Less(@),
                                                !.asking = IF @ > 1 THEN @ - 1 ELSE @]]
    /\ \/ db.left > 0 \/ \E n \in Nodes : node[n].trust > 0 \/ node[n].asking > 1
    /\ UNCHANGED <<timeline, appends, done, acked, stale>>

-------------------------------------------------------------------------------

Next ==
    \/ \E n \in Nodes :
        \/ Ask(n) \/ Decide(n) \/ Hear(n) \/ GiveUp(n)
        \/ Write(n) \/ Answer(n) \/ Crash(n) \/ Start(n)
    \/ \E append \in appends : Store(append)
    \/ \E append \in done : Promise(append)
    \/ Replicate \/ Failover \/ Tick

Fairness ==
    /\ \A n \in Nodes : WF_vars(Ask(n)) /\ WF_vars(Decide(n)) /\ WF_vars(Hear(n)) /\ WF_vars(Start(n))
    /\ WF_vars(Tick)

Spec == Init /\ [][Next]_vars /\ Fairness

-------------------------------------------------------------------------------
(* What has to hold.                                                                             *)

(* The node that may still write to the shard knows all that is in it.                           *)
OwnerKnowsAll ==
    \A n \in Nodes :
        (node[n].state = "serving" /\ node[n].epoch = db.epoch /\ node[n].timeline = timeline
         /\ db.owner = n)
        => Range(db.log) \subseteq Range(node[n].log)

(* What was promised is kept, where a transaction is on the replica before it is acknowledged or *)
(* no replica took over.                                                                         *)
NothingLost == (Synchronous \/ timeline = 1) => acked \subseteq Range(db.log)

(* No client is told less than was promised before.                                              *)
NothingStale == (Synchronous \/ timeline = 1) => ~stale

(* Two nodes never answer for the shard at once.                                                 *)
OneAnswers == Cardinality({n \in Nodes : Trusts(n)}) <= 1

Serves(n) == node[n].state = "serving" /\ Holds(n)

(* When nothing more goes wrong, a node serves the shard for good.  Not checked by Shards.cfg: it *)
(* takes too long with these budgets.                                                            *)
ServedAgain == <>[](\E n \in Nodes : Serves(n))
=============================================================================
