// A member of a group that uses @platformatic/kafka; its lines are those of tests/live/member.py.

import { createRequire } from 'node:module';
import path from 'node:path';
import readline from 'node:readline';
import { pathToFileURL } from 'node:url';

// Installed elsewhere: nothing generated lies beside this file.
const found = createRequire(path.join(process.env.PLATFORMATIC_FOLDER, 'package.json'));
const { Consumer } = await import(pathToFileURL(found.resolve('@platformatic/kafka')));

const options = Object.fromEntries(
  process.argv.slice(2).map((word) => [
    word.slice(0, word.indexOf('=')),
    word.slice(word.indexOf('=') + 1),
  ]),
);

const consumer = new Consumer({
  clientId: options.client,
  groupId: options.group,
  bootstrapBrokers: [options.bootstrap],
  sessionTimeout: Number(options.session_ms),
  rebalanceTimeout: Number(options.rebalance_ms),
  heartbeatInterval: Number(options.heartbeat_ms),
  maxWaitTime: 200,
  autocommit: false,
  retries: 100,
  retryDelay: 200,
});
let stream;
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

consumer.on('consumer:group:rebalance', giveUp);
consumer.on('consumer:group:join', ({ assignments }) => {
  giveUp();
  const mine = (assignments ?? []).find(({ topic }) => topic === options.topic);
  owned = [...(mine?.partitions ?? [])].sort((a, b) => a - b);
  say('assigned', owned.join(','));
});
consumer.on('consumer:heartbeat:error', ({ error }) => {
  process.stderr.write(`${error.message}\n`);
});

const commands = {
  async commit(words) {
    const offsets = words.map((word) => {
      const [partition, offset] = word.split('=');
      return {
        topic: options.topic,
        partition: Number(partition),
        offset: BigInt(offset),
        leaderEpoch: -1,
      };
    });
    await consumer.commit({ offsets });
    say('done commit');
  },
  async committed() {
    const partitions = [...owned];
    const answer = await consumer.listCommittedOffsets({
      topics: [{ topic: options.topic, partitions }],
    });
    const offsets = answer.get(options.topic);
    const pairs = partitions.map((partition) => [partition, offsets[partition] ?? -1n]);
    say(
      'done committed',
      ...pairs.filter(([, offset]) => offset >= 0n).map((pair) => pair.join('=')),
    );
  },
  async positions() {
    const pairs = owned.map((partition) => [
      partition,
      stream.offsetsToFetch.get(`${options.topic}:${partition}`),
    ]);
    if (pairs.some(([, offset]) => offset === undefined)) {
      throw new Error('it does not know them yet');
    }
    say('done positions', ...pairs.map((pair) => pair.join('=')));
  },
  async close() {
    await consumer.close(true);
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
  stream = await consumer.consume({
    topics: [options.topic],
    mode: 'committed',
    fallbackMode: 'earliest',
  });
  stream.on('data', ({ offset }) => say('error', 'a record at offset', offset));
  stream.on('error', (error) => {
    say('fatal', error.name, error.message);
    process.stderr.write(`${error.stack} ${JSON.stringify(error.errors?.map((each) => each.message))}\n`);
    process.exit(1);
  });
  for await (const line of readline.createInterface({ input: process.stdin })) {
    await obey(line);
  }
  await commands.close();
}

main().catch((error) => {
  say('fatal', error.name, error.message);
  process.stderr.write(`${error.stack}\n`);
  process.exit(1);
});
