// A member of a group that uses kafkajs; its lines are those of tests/live/member.py.
//
// kafkajs tells of whole assignments only, once a generation, and of no revocation: what it had
// is given up when a rebalance begins.

'use strict';

const path = require('node:path');
const readline = require('node:readline');

// Installed elsewhere: nothing generated lies beside this file.
const { Kafka, logLevel } = require(path.join(process.env.KAFKAJS_FOLDER, 'node_modules', 'kafkajs'));

const options = Object.fromEntries(
  process.argv.slice(2).map((word) => [
    word.slice(0, word.indexOf('=')),
    word.slice(word.indexOf('=') + 1),
  ]),
);

// How to log in, if it has to: MECHANISM USER PASSWORD.
const [mechanism, username, password] = (process.env.MEMBER_LOGIN ?? '').split(' ');

const kafka = new Kafka({
  sasl: mechanism ? { mechanism: mechanism.toLowerCase(), username, password } : undefined,
  clientId: options.client,
  brokers: [options.bootstrap],
  logLevel: logLevel.ERROR,
  retry: { initialRetryTime: 100, maxRetryTime: 500, retries: 100 },
});
const consumer = kafka.consumer({
  groupId: options.group,
  sessionTimeout: Number(options.session_ms),
  rebalanceTimeout: Number(options.rebalance_ms),
  heartbeatInterval: Number(options.heartbeat_ms),
  maxWaitTimeInMs: 200,
});
const admin = kafka.admin();
let owned = [];

function say(...words) {
  process.stdout.write(`${words.join(' ')}\n`);
}

function giveUp() {
  if (owned.length > 0) {
    say('revoked', owned.join(','));
  }
  owned = [];
}

consumer.on(consumer.events.REBALANCING, giveUp);
consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
  giveUp();
  owned = [...(payload.memberAssignment[options.topic] ?? [])].sort((a, b) => a - b);
  say('assigned', owned.join(','));
});
consumer.on(consumer.events.CRASH, ({ payload }) => {
  say(payload.restart ? 'error' : 'fatal', payload.error.name, payload.error.message);
});

const commands = {
  async commit(words) {
    const offsets = words.map((word) => {
      const [partition, offset] = word.split('=');
      return { topic: options.topic, partition: Number(partition), offset };
    });
    await consumer.commitOffsets(offsets);
    say('done commit');
  },
  async committed() {
    const [found] = await admin.fetchOffsets({ groupId: options.group, topics: [options.topic] });
    const mine = found.partitions.filter(({ partition }) => owned.includes(partition));
    say('done committed', ...mine.map(({ partition, offset }) => `${partition}=${offset}`));
  },
  async close() {
    await consumer.disconnect();
    await admin.disconnect();
    say('done close');
    process.exit(0);
  },
};

async function obey(line) {
  const [command, ...words] = line.split(' ');
  try {
    await commands[command](words);
  } catch (error) {
    say('failed', command, error.name, error.message);
  }
}

async function main() {
  await admin.connect();
  await consumer.connect();
  await consumer.subscribe({ topics: [options.topic], fromBeginning: true });
  await consumer.run({ autoCommit: false, eachMessage: async () => {} });
  for await (const line of readline.createInterface({ input: process.stdin })) {
    await obey(line);
  }
  await commands.close();
}

main().catch((error) => {
  say('fatal', error.name, error.message);
  process.exit(1);
});
