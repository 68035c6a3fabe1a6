"""Several processes that serve together, and the supervisor that starts them.

One process serves with one core.  With `--workers`, a supervisor starts several, each of which is a
node with an id and a port of its own.  They share the store's groups as nodes on different machines
would, and clients find the right one as they find the right broker of Kafka's.

- `ports.py` chooses the ports: those that all workers share, and each worker's own.
- `supervisor.py` starts the workers, starts one again that dies, and stops them.
- `child.py` is one of them as the supervisor sees it, `worker.py` is what runs in it, and
  `channel.py` how the two talk.
"""
