// Keeps clients of the official gRPC library for Node.js and does with them what grpcdrivers.py describes.
// Usage: node driver.js HOST:PORT tls|plain
'use strict';

const readline = require('node:readline');
const { ConsumeResult, FilterExpression, Producer, PushConsumer, SimpleConsumer } = require('rocketmq-client-nodejs');
const { FilterType, TransactionResolution } = require('rocketmq-client-nodejs/proto/apache/rocketmq/v2/definition_pb');

const [endpoints, security] = process.argv.slice(2);
const quiet = () => {};
const clients = new Map();
const received = new Map();
const failed = new Map();

const say = what => process.stdout.write(JSON.stringify(what) + '\n');

function options({ credentials }) {
  return {
    endpoints,
    namespace: '',
    sslEnabled: security === 'tls',
    sessionCredentials: credentials ? { accessKey: credentials[0], accessSecret: credentials[1] } : undefined,
    requestTimeout: 10000,
    logger: { info: quiet, warn: console.error, error: console.error, debug: quiet, close: quiet },
  };
}

function subscription({ topic, tag, sql }) {
  return new Map([[topic, sql ? new FilterExpression(sql, FilterType.SQL) : new FilterExpression(tag ?? '*')]]);
}

async function start(name, client) {
  await client.startup();
  clients.set(name, client);
}

function toSend({ topic, body, tag, keys, properties, group, deliverAt }) {
  return {
    topic,
    body: Buffer.from(body, 'base64'),
    tag: tag ?? undefined,
    keys,
    properties: new Map(Object.entries(properties)),
    messageGroup: group ?? undefined,
    deliveryTimestamp: deliverAt ? new Date(deliverAt) : undefined,
  };
}

function asReceived(message) {
  return {
    topic: message.topic,
    body: message.body.toString('base64'),
    tag: message.tag,
    keys: message.keys,
    properties: Object.fromEntries(message.properties),
    group: message.messageGroup,
    deliverAt: message.deliveryTimestamp?.getTime(),
    id: message.messageId,
    attempt: message.deliveryAttempt,
  };
}

const commands = {
  producer: command => start(command.client, new Producer({
    ...options(command),
    topics: command.topics,
    checker: {
      check: async message => {
        say({ event: 'check', client: command.client, message: asReceived(message) });
        return message.properties.get('outcome') === 'commit'
          ? TransactionResolution.COMMIT : TransactionResolution.ROLLBACK;
      },
    },
  })),

  send: async ({ client, message }) => {
    const receipt = await clients.get(client).send(toSend(message));
    return { id: receipt.messageId, recall: receipt.recallHandle };
  },

  transaction: async ({ client, message, outcome }) => {
    const producer = clients.get(client);
    const transaction = producer.beginTransaction();
    const receipt = await producer.send(toSend(message), transaction);
    if (outcome !== 'unknown') await transaction[outcome]();
    return { id: receipt.messageId };
  },

  recall: async ({ client, topic, handle }) => ({ id: (await clients.get(client).recallMessage(topic, handle)).messageId }),

  push: command => start(command.client, new PushConsumer({
    ...options(command),
    consumerGroup: command.group,
    subscriptions: subscription(command),
    messageListener: {
      consume: async message => {
        say({ event: 'message', client: command.client, message: asReceived(message) });
        const times = failed.get(message.messageId) ?? 0;
        failed.set(message.messageId, times + 1);
        return times < Number(message.properties.get('failures') ?? 0) ? ConsumeResult.FAILURE : ConsumeResult.SUCCESS;
      },
    },
  })),

  simple: command => start(command.client, new SimpleConsumer({
    ...options(command),
    consumerGroup: command.group,
    subscriptions: subscription(command),
    awaitDuration: command.wait * 1000,
  })),

  receive: async ({ client, max, invisible }) => {
    const messages = await clients.get(client).receive(max, invisible * 1000);
    for (const message of messages) received.set(`${client} ${message.messageId}`, message);
    return { messages: messages.map(asReceived) };
  },

  ack: ({ client, message }) => clients.get(client).ack(received.get(`${client} ${message}`)),

  hide: ({ client, message, seconds }) =>
    clients.get(client).changeInvisibleDuration(received.get(`${client} ${message}`), seconds * 1000),

  close: async ({ client }) => {
    const one = clients.get(client);
    clients.delete(client);
    // A push consumer waits for its long polls, and nobody has to wait for it.
    if (one instanceof PushConsumer) one.shutdown().catch(console.error);
    else await one.shutdown();
  },
};

async function run({ id, do: name, ...command }) {
  try {
    say({ id, ok: (await commands[name](command)) ?? {} });
  } catch (error) {
    // Numbers below 100 are statuses of gRPC itself.
    say({ id, error: String(error), ...(error.code >= 100 ? { code: error.code } : {}) });
  }
}

const lines = readline.createInterface({ input: process.stdin });
lines.on('line', line => run(JSON.parse(line)));
lines.on('close', () => process.exit(0));
process.on('unhandledRejection', console.error);
