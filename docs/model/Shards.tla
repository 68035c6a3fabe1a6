------------------------------- MODULE Shards -------------------------------
(* One shard of a store that several nodes share: who may write to it, and what its clients may  *)
(* be told.  Shards do not touch each other, so one is enough.                                   *)
(*                                                                                               *)
(* A node owns the shard by a lease, which is a row in the database.  Claiming it raises the     *)
(* row's epoch.  An append carries the fence of its node's lease, and the database refuses it,   *)
(* in the same transaction, when the fence has passed.  The database may fail over to a replica  *)
(* that lacks its last transactions; it then has a new timeline, and a fence is a timeline and   *)
(* an epoch.                                                                                     *)
(*                                                                                               *)
(* Nodes pause, crash, come back, and lose messages: any step of theirs may come arbitrarily     *)
(* late.  What can go wrong is bounded by budgets, so that there is an end to it.                *)
(*                                                                                               *)
(* README.md says how to check it, and what happens when one of its rules is left out.           *)
EXTENDS Integers, FiniteSets, TLC

CONSTANTS
    Nodes,          \* the processes that share the shard
    None,           \* no process, no name
    Lease,          \* how long a lease lasts, in ticks
    Patient,        \* the nodes whose leases last longer,
    Patience,       \*   and by how many ticks
    OneName,        \* whether all processes go by one name: that of a node which is started again
    Synchronous     \* whether a transaction is on the replica before it is acknowledged

CONSTANTS           \* How often what may happen:
    Writes,         \* an append
    Crashes,        \* a node crashes
    Lapses,         \* a lease runs out under a node that is up, because something was late
    Losses,         \* a connection is lost, with what was on its way on it
    Handovers,      \* a node gives the shard up
    Failovers       \* the database fails over to its replica

CONSTANTS           \* The rules; with one of them left out, the model has a fault.
    EpochFences,    \* The database compares epochs.
    TimelineFences, \* The database compares timelines.
    TrustFromAsking, \* A node counts its lease from before it asked, less a margin.
    GraceAfterFailover, \* On a new timeline, the lease first lasts for its whole length again,
    GraceBindsOwner, \*   until then not even its owner may claim it,
    GraceOnce,      \*   and it does so once for each timeline.
    GraceOf,        \*   Whose length that is: "row", "asker", "either" or "all".
    ClaimsAnew,     \* After a failed append, a node claims the shard anew before it reads it.
    StopsFirst,     \* A node that gives the shard up stops answering before it does so.
    WaitsForName,   \* A process waits until the former process of its name can't live any more.
    ClaimChecksName, \* A claim is refused if another process has its name by now,
    ClaimKeepsName  \*   and else prolongs the entry of the name, as a renewal does.

VARIABLES
    db,         \* what the database holds: the lease, the log, and who has the common name
    replica,    \* what its replica holds
    timeline,   \* which life of the database this is
    node,       \* what each node knows
    appends,    \* appends on their way to the database
    done,       \* appends that were stored, whose answers are on their way
    releases,   \* releases on their way to the database
    promised,   \* what clients were promised: as the answer to a write, or by having read it
    stale,      \* whether a client was ever told less than had been promised before
    budget      \* what may still happen

vars == <<db, replica, timeline, node, appends, done, releases, promised, stale, budget>>

Name(n) == IF OneName THEN "node" ELSE n
Length(n) == IF n \in Patient THEN Lease + Patience ELSE Lease
Max(x, y) == IF x > y THEN x ELSE y

NoAnswer == [kind |-> "none", epoch |-> 0, timeline |-> 0, fresh |-> 0]
Down == [state |-> "down", epoch |-> 0, timeline |-> 0, trust |-> 0, log |-> {},
         answer |-> NoAnswer]
Idle == [Down EXCEPT !.state = "idle"]

Init ==
    /\ db = [owner |-> None, epoch |-> 0, left |-> 0, length |-> 0, log |-> {},
             noticed |-> 1, grace |-> FALSE, holder |-> None, holderLeft |-> 0]
    /\ replica = db
    /\ timeline = 1
    /\ node = [n \in Nodes |-> IF OneName THEN Down ELSE Idle]
    /\ appends = {} /\ done = {} /\ releases = {} /\ promised = {} /\ stale = FALSE
    /\ budget = [writes |-> Writes, crashes |-> Crashes, lapses |-> Lapses, losses |-> Losses,
                 handovers |-> Handovers, failovers |-> Failovers]

Spend(what) == budget[what] > 0 /\ budget' = [budget EXCEPT ![what] = @ - 1]
Replicated == replica' = IF Synchronous THEN db' ELSE replica

-------------------------------------------------------------------------------
(* Leases.  A node asks, the database decides, the answer arrives.  Asking is no step of its own: *)
(* a node that asked earlier trusts the answer for less long, and may do nothing more than one    *)
(* that asked in the moment of the decision.                                                      *)

Up(n) == node[n].state # "down"
IsUnder(each, n) == each.by = n /\ each.epoch = node[n].epoch /\ each.timeline = node[n].timeline

Holds(n) == /\ node[n].state = "serving"
            /\ db.owner = Name(n) /\ db.epoch = node[n].epoch
            /\ TimelineFences => node[n].timeline = timeline

(* The replica may lack a renewal, or a claim by a node that trusts its lease.  So the first node *)
(* that notices the new timeline gives the lease its length once more, and what it has lost has   *)
(* run out before any node can claim it.  That holds for the row's owner as well: it may have     *)
(* lost the shard to a node whose claim is what the replica lacks.                                *)
IsNew == GraceAfterFailover /\ db.noticed # timeline
GraceLength(n) == CASE GraceOf = "row"    -> db.length
                    [] GraceOf = "asker"  -> Length(n)
                    [] GraceOf = "either" -> Max(db.length, Length(n))
                    [] GraceOf = "all"    -> IF Patient = {} THEN Lease ELSE Lease + Patience

(* An owner needs not wait for its own lease to run out.                                          *)
IsFree(n) == db.left = 0 \/ (db.owner = Name(n) /\ ~(db.grace /\ GraceBindsOwner))

HasName(n) == OneName /\ ClaimChecksName => db.holder = n
Listed(new, n) == IF OneName THEN [new EXCEPT !.holderLeft = Length(n)] ELSE new

Answered(kind, n, epoch) ==
    node' = [node EXCEPT ![n].answer =
        [kind |-> kind, epoch |-> epoch, timeline |-> timeline, fresh |-> Length(n)]]

Notice(n) ==
    /\ IsNew
    /\ db' = [db EXCEPT !.noticed = IF GraceOnce THEN timeline ELSE @,
                        !.left = Max(@, GraceLength(n)), !.grace = TRUE]
    /\ node' = [node EXCEPT ![n] = Idle]

Renew(n) ==
    /\ ~IsNew /\ Holds(n)
    /\ db' = Listed([db EXCEPT !.left = Length(n), !.length = Length(n), !.grace = FALSE], n)
    /\ Answered("renewed", n, db.epoch)

(* A node that doesn't know of a valid lease claims the shard.  A node that serves asks for a     *)
(* renewal first, and so finds out that it has lost the shard.                                    *)
Claim(n) ==
    /\ ~IsNew /\ node[n].state = "idle" /\ IsFree(n)
    /\ LET isOwn == db.owner = Name(n) /\ db.left > 0
           epoch == IF isOwn /\ ~ClaimsAnew THEN db.epoch ELSE db.epoch + 1
           new == [db EXCEPT !.owner = Name(n), !.epoch = epoch, !.left = Length(n),
                             !.length = Length(n), !.grace = FALSE] IN
       /\ db' = IF ClaimKeepsName THEN Listed(new, n) ELSE new
       /\ Answered("claimed", n, epoch)

FindLost(n) ==
    /\ ~IsNew /\ node[n].state = "serving" /\ ~Holds(n)
    /\ db' = db
    /\ node' = [node EXCEPT ![n] = Idle]

FindNameTaken(n) ==
    /\ db' = db
    /\ node' = [node EXCEPT ![n] = Down]

Decide(n) ==
    /\ Up(n) /\ node[n].answer = NoAnswer
    /\ IF HasName(n) THEN Notice(n) \/ Renew(n) \/ Claim(n) \/ FindLost(n) ELSE FindNameTaken(n)
    /\ Replicated
    /\ UNCHANGED <<timeline, appends, done, releases, promised, stale, budget>>

Trust(n) == IF TrustFromAsking THEN Max(node[n].answer.fresh - 1, 0) ELSE Length(n)

(* After a claim, a node reads the shard; the claim may be long past by then.                     *)
Hear(n) ==
    /\ Up(n) /\ node[n].answer # NoAnswer
    /\ LET answer == node[n].answer IN
       node' = [node EXCEPT ![n] =
           IF answer.kind = "renewed"
           THEN [@ EXCEPT !.trust = Trust(n), !.answer = NoAnswer]
           ELSE [state |-> "serving", epoch |-> answer.epoch, timeline |-> answer.timeline,
                 trust |-> Trust(n), log |-> db.log, answer |-> NoAnswer]]
    /\ UNCHANGED <<db, replica, timeline, appends, done, releases, promised, stale, budget>>

(* A lost answer: the database has given or renewed a lease, and its node doesn't know.           *)
LoseAnswer(n) ==
    /\ node[n].answer # NoAnswer
    /\ Spend("losses")
    /\ node' = [node EXCEPT ![n].answer = NoAnswer]
    /\ UNCHANGED <<db, replica, timeline, appends, done, releases, promised, stale>>

(* A planned hand-over: a node settles its appends, then gives up the lease.                      *)
Trusts(n) == node[n].state = "serving" /\ node[n].trust > 0
Pending(n) == {each \in appends \cup done : IsUnder(each, n)}

GiveUp(n) ==
    /\ node[n].state = "serving" /\ Pending(n) = {}
    /\ Spend("handovers")
    /\ releases' = releases \cup {[by |-> n, epoch |-> node[n].epoch,
                                   timeline |-> node[n].timeline]}
    /\ node' = IF StopsFirst THEN [node EXCEPT ![n] = Idle] ELSE node
    /\ UNCHANGED <<db, replica, timeline, appends, done, promised, stale>>

(* It may come late, when the same node has claimed the shard again.                              *)
Release(each) ==
    /\ releases' = releases \ {each}
    /\ db' = IF db.owner = Name(each.by) /\ db.epoch = each.epoch
                /\ (TimelineFences => each.timeline = timeline)
             THEN [db EXCEPT !.owner = None, !.left = 0]
             ELSE db
    /\ Replicated
    /\ UNCHANGED <<timeline, node, appends, done, promised, stale, budget>>

-------------------------------------------------------------------------------
(* Appends.  What an append says, its node knows from then on; its client hears when it is       *)
(* stored.                                                                                       *)

Write(n) ==
    /\ Trusts(n)
    /\ Spend("writes")
    /\ LET append == [by |-> n, what |-> Writes - budget.writes, epoch |-> node[n].epoch,
                      timeline |-> node[n].timeline] IN
       /\ appends' = appends \cup {append}
       /\ node' = [node EXCEPT ![n].log = @ \cup {append.what}]
    /\ UNCHANGED <<db, replica, timeline, done, releases, promised, stale>>

Passes(append) ==
    /\ EpochFences => append.epoch = db.epoch /\ db.owner # None
    /\ TimelineFences => append.timeline = timeline

(* None overtakes another of the same lease, not even one that is never heard of again.           *)
IsNext(append) ==
    \A other \in appends :
        (other.by = append.by /\ other.epoch = append.epoch /\ other.timeline = append.timeline)
        => append.what <= other.what

(* A node whose append is refused has lost the shard.                                             *)
Store(append) ==
    /\ IsNext(append)
    /\ appends' = appends \ {append}
    /\ IF Passes(append)
       THEN /\ db' = [db EXCEPT !.log = @ \cup {append.what}]
            \* Its node waits for the answer unless it has given up the connection.
            /\ done' = IF IsUnder(append, append.by) THEN done \cup {append} ELSE done
            /\ node' = node
       ELSE /\ db' = db
            /\ done' = done
            /\ node' = IF IsUnder(append, append.by)
                       THEN [node EXCEPT ![append.by] = Idle] ELSE node
    /\ Replicated
    /\ UNCHANGED <<timeline, releases, promised, stale, budget>>

Promise(append) ==
    /\ done' = done \ {append}
    /\ promised' = promised \cup {append.what}
    /\ UNCHANGED <<db, replica, timeline, node, appends, releases, stale, budget>>

(* An append failed because its connection was lost: it may have been stored, or may still be on  *)
(* its way and be stored later.  Its node never sends it again; it forgets what it knew, claims   *)
(* the shard anew, and reads it.                                                                  *)
LoseConnection(n) ==
    /\ node[n].state = "serving" /\ Pending(n) # {}
    /\ Spend("losses")
    /\ node' = [node EXCEPT ![n] = Idle]
    /\ done' = {each \in done : each.by # n}
    /\ UNCHANGED <<db, replica, timeline, appends, releases, promised, stale>>

(* A question that needs no write is answered from memory, under the trust in the lease alone,    *)
(* once all that the answer rests on is stored.                                                   *)
Answer(n) ==
    /\ Trusts(n) /\ Pending(n) = {}
    /\ promised' = promised \cup node[n].log
    /\ stale' = (stale \/ ~(promised \subseteq node[n].log))
    /\ UNCHANGED <<db, replica, timeline, node, appends, done, releases, budget>>

-------------------------------------------------------------------------------
(* What goes wrong, and time.                                                                    *)

Crash(n) ==
    /\ Up(n)
    /\ Spend("crashes")
    /\ node' = [node EXCEPT ![n] = Down]
    \* What it has sent may still arrive; what was stored is acknowledged to no client.
    /\ done' = {each \in done : each.by # n}
    /\ UNCHANGED <<db, replica, timeline, appends, releases, promised, stale>>

(* Where processes share a name, the database's entry under it says which one has it.  A process  *)
(* that is paused lives on, so the entry has to run out as a lease does.                          *)
Start(n) ==
    /\ ~Up(n)
    /\ OneName /\ WaitsForName => db.holderLeft = 0
    /\ db' = IF OneName THEN Listed([db EXCEPT !.holder = n], n) ELSE db
    /\ Replicated
    /\ node' = [node EXCEPT ![n] = Idle]
    /\ UNCHANGED <<timeline, appends, done, releases, promised, stale, budget>>

Replicate ==
    /\ replica # db
    /\ replica' = db
    /\ UNCHANGED <<db, timeline, node, appends, done, releases, promised, stale, budget>>

Failover ==
    /\ Spend("failovers")
    /\ db' = replica
    /\ timeline' = timeline + 1
    /\ UNCHANGED <<replica, node, appends, done, releases, promised, stale>>

Less(ticks) == Max(ticks - 1, 0)
Later(row) == [row EXCEPT !.left = Less(@), !.holderLeft = Less(@)]

(* A lease runs out under a node that has it, or is about to hear so; or a name under its process. *)
IsLapse ==
    \/ db.left = 1 /\ \E n \in Nodes :
           Holds(n) \/ (node[n].answer.kind = "claimed" /\ node[n].answer.epoch = db.epoch)
    \/ db.holderLeft = 1 /\ Up(db.holder)

Tick ==
    /\ db.left > 0 \/ db.holderLeft > 0
       \/ \E n \in Nodes : node[n].trust > 0 \/ node[n].answer.fresh > 0
    /\ IF IsLapse THEN Spend("lapses") ELSE budget' = budget
    /\ db' = Later(db)
    \* The replica's lease ends at a moment of the database's clock, so it runs out as well.
    /\ replica' = Later(replica)
    /\ node' = [n \in Nodes |-> [node[n] EXCEPT !.trust = Less(@), !.answer.fresh = Less(@)]]
    /\ UNCHANGED <<timeline, appends, done, releases, promised, stale>>

-------------------------------------------------------------------------------

Next ==
    \/ \E n \in Nodes :
        \/ Decide(n) \/ Hear(n) \/ LoseAnswer(n) \/ GiveUp(n)
        \/ Write(n) \/ LoseConnection(n) \/ Answer(n) \/ Crash(n) \/ Start(n)
    \/ \E append \in appends : Store(append)
    \/ \E append \in done : Promise(append)
    \/ \E each \in releases : Release(each)
    \/ Replicate \/ Failover \/ Tick

(* Nothing is fair about what goes wrong; replication and messages may never arrive.              *)
Fairness ==
    /\ \A n \in Nodes : WF_vars(Decide(n)) /\ WF_vars(Hear(n)) /\ WF_vars(Start(n))
    /\ WF_vars(Tick)

Spec == Init /\ [][Next]_vars /\ Fairness

-------------------------------------------------------------------------------
(* What has to hold.                                                                             *)

(* No two nodes answer for the shard at once.                                                    *)
OneAnswers == Cardinality({n \in Nodes : Trusts(n)}) <= 1

(* The node that may write to the shard knows all that is in it, and nothing that is not in it    *)
(* and not on its way there.                                                                     *)
OwnerKnows ==
    \A n \in Nodes :
        (node[n].state = "serving" /\ db.owner = Name(n) /\ node[n].epoch = db.epoch
         /\ node[n].timeline = timeline)
        => /\ db.log \subseteq node[n].log
           /\ node[n].log \subseteq db.log \cup {each.what : each \in Pending(n)}

(* What was promised is kept, where a transaction is on the replica before it is acknowledged or *)
(* no replica took over.                                                                         *)
LosesNothing == Synchronous \/ timeline = 1
AllKept == promised \subseteq db.log
NothingLost == LosesNothing => AllKept

(* No client is told less than was promised before.                                              *)
NothingStale == LosesNothing => ~stale

(* When nothing more goes wrong, a node serves the shard for good.                               *)
Serves(n) == Holds(n) /\ node[n].timeline = timeline
ServedAgain == <>[](\E n \in Nodes : Serves(n))

-------------------------------------------------------------------------------
(* Nodes are alike if none is patient.  Of use only without ServedAgain, as TLC may overlook     *)
(* cycles between states that it takes for the same.                                             *)
Alike == Permutations(Nodes)
=============================================================================
