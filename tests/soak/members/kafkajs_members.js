// Hosts members that use kafkajs; see recorder.py for orders and records.
//
// kafkajs tells of whole assignments only, once a generation, and of no revocation: what a member
// had is given up when a rebalance begins.

'use strict';

const fs = require('node:fs');
const path = require('node:path');
const { setTimeout: sleep } = require('node:timers/promises');

// Installed elsewhere: nothing generated lies beside this file.
const { Kafka, logLevel } = require(path.join(process.env.KAFKAJS_FOLDER, 'node_modules', 'kafkajs'));

const orders = JSON.parse(fs.readFileSync(process.argv[2], 'utf8'));
const records = fs.openSync(orders.records, 'a');
const AWAY_MS = 1000;
const LOOK_MS = 50;
// A consumer that is restarting does not end when it is told to.
const END_MS = 10_000;
let stopped = false;

const now = () => Number(process.hrtime.bigint()) / 1e9;

class Member {
  constructor(member, life) {
    this.member = member;
    this.life = life;
    this.done = new Map();
    this.fresh = [];
    this.round = 0;
    this.hasJustCommitted = false;
    this.isAnswered = false;
    const kafka = new Kafka({
      clientId: member.name,
      brokers: orders.bootstrap,
      logLevel: logLevel.NOTHING,
      retry: { initialRetryTime: 100, maxRetryTime: 500, retries: 100 },
    });
    this.admin = kafka.admin();
    this.consumer = kafka.consumer({
      groupId: member.group,
      sessionTimeout: orders.session_ms,
      rebalanceTimeout: orders.rebalance_ms,
      heartbeatInterval: orders.heartbeat_ms,
      maxWaitTimeInMs: 500,
    });
    const { REBALANCING, GROUP_JOIN, CRASH, COMMIT_OFFSETS } = this.consumer.events;
    this.consumer.on(COMMIT_OFFSETS, () => {
      this.isAnswered = true;
    });
    this.consumer.on(REBALANCING, () => this.giveUp());
    this.consumer.on(GROUP_JOIN, ({ payload }) => this.joined(payload));
    this.consumer.on(CRASH, ({ payload }) => {
      // It is no member any more.
      this.giveUp();
      this.tell('error', { error: String(payload.error) });
    });
  }

  tell(what, details = {}) {
    const head = { at: now(), member: this.member.name, life: this.life, what };
    fs.writeSync(records, `${JSON.stringify({ ...head, ...details })}\n`);
  }

  giveUp() {
    this.round += 1;
    const partitions = [...this.done.keys(), ...this.fresh];
    this.done.clear();
    this.fresh = [];
    if (partitions.length > 0) {
      this.tell('revoked', { partitions });
    }
  }

  joined(payload) {
    this.giveUp();
    this.fresh = payload.memberAssignment[orders.topic] ?? [];
    this.tell('assigned', { partitions: this.fresh });
  }

  async read() {
    const { round, fresh } = this;
    const asked = now();
    const [found] = await this.admin.fetchOffsets({
      groupId: this.member.group,
      topics: [orders.topic],
    });
    const offsets = Object.fromEntries(
      found.partitions
        .filter(({ partition }) => fresh.includes(partition))
        .map(({ partition, offset }) => [partition, Math.max(Number(offset), 0)]),
    );
    this.tell('read', { asked, offsets });
    if (round === this.round) {
      fresh.forEach((partition) => this.done.set(partition, offsets[partition] ?? 0));
      this.fresh = [];
    }
  }

  async countAndCommit() {
    this.done.forEach((offset, partition) => this.done.set(partition, offset + 1));
    const offsets = Object.fromEntries(this.done);
    const asked = now();
    this.isAnswered = false;
    this.tell('sent', { asked, offsets });
    try {
      await this.consumer.commitOffsets(
        [...this.done].map(([partition, offset]) => ({
          topic: orders.topic,
          partition,
          offset: String(offset),
        })),
      );
      // A consumer that is about to restart does not send commits, and says nothing of that.
      if (!this.isAnswered) {
        throw new Error('the commit was not sent');
      }
      this.tell('acked', { asked, offsets });
      this.hasJustCommitted = true;
    } catch (error) {
      this.tell('failed', { asked, offsets, error: String(error) });
    }
  }

  async run() {
    await this.admin.connect();
    await this.consumer.connect();
    await this.consumer.subscribe({ topics: [orders.topic], fromBeginning: true });
    await this.consumer.run({ autoCommit: false, eachMessage: async () => {} });
    const until = this.member.stay_s > 0 ? now() + this.member.stay_s : Infinity;
    let due = now() + Math.random() * orders.commit_s;
    while (!stopped) {
      // When it has just been answered, its leaving will most probably be heard.
      if (now() > until && this.hasJustCommitted) {
        break;
      }
      this.hasJustCommitted = false;
      await sleep(LOOK_MS);
      if (this.fresh.length > 0) {
        await this.read().catch((error) => this.tell('error', { error: String(error) }));
      }
      if (now() >= due && this.done.size > 0) {
        due = Math.max(due + orders.commit_s, now());
        await this.countAndCommit();
      }
    }
    this.tell('left');
    await this.consumer.disconnect();
    await this.admin.disconnect();
  }
}

async function live(member) {
  for (let life = 1; !stopped; life += 1) {
    const each = new Member(member, life);
    await each.run().catch((error) => each.tell('error', { error: String(error) }));
    await sleep(AWAY_MS);
  }
}

process.stdin.on('end', () => {
  stopped = true;
  setTimeout(() => process.exit(0), END_MS).unref();
});
process.stdin.resume();
Promise.all(orders.members.map(live)).then(() => process.exit(0));
