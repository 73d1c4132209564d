// Serves an agent with the A2A SDK for JavaScript: "0.3" or "1.0" with a card of that
// version, "both" with one card for the two. Prints the URL of the agent.
//
// It repeats what it is asked: what begins with "message" as a message, anything else
// as a task, and what begins with "slow" after a second.
import { randomUUID } from 'node:crypto';
import express from 'express';

const version = process.argv[2];
const app = express();
const listener = app.listen(0, '127.0.0.1', async () => {
  const base = `http://127.0.0.1:${listener.address().port}`;
  await { '0.3': serve03, '1.0': serve10, both: serve10 }[version](`${base}/a2a`);
  console.log(base);
});

const skill = { id: 'repeat', name: 'Repeat', description: 'Repeats what it is told.', tags: ['demo'], examples: [] };
const modes = { defaultInputModes: ['text/plain'], defaultOutputModes: ['text/plain'] };
const pause = (text) => new Promise((done) => setTimeout(done, text.startsWith('slow') ? 1000 : 0));

async function serve03(url) {
  const { DefaultRequestHandler, InMemoryTaskStore } = await import('a2a-sdk-0.3/server');
  const { agentCardHandler, jsonRpcHandler, UserBuilder } = await import('a2a-sdk-0.3/server/express');
  const card = {
    name: 'repeater', description: 'A peer.', version: '1.0.0', protocolVersion: '0.3.0', url, preferredTransport: 'JSONRPC',
    capabilities: {}, ...modes, skills: [skill],
  };
  const requestHandler = new DefaultRequestHandler(card, new InMemoryTaskStore(), {
    async execute({ taskId, contextId, userMessage }, bus) {
      const text = userMessage.parts.map((part) => part.text ?? '').join('');
      const parts = [{ kind: 'text', text: `You said: ${text}` }];
      if (text.startsWith('message')) {
        bus.publish({ kind: 'message', messageId: randomUUID(), role: 'agent', contextId, parts });
      } else {
        bus.publish({ kind: 'task', id: taskId, contextId, status: { state: 'working' }, history: [userMessage] });
        await pause(text);
        bus.publish({ kind: 'artifact-update', taskId, contextId, artifact: { artifactId: 'answer', parts } });
        bus.publish({ kind: 'status-update', taskId, contextId, status: { state: 'completed' }, final: true });
      }
      bus.finished();
    },
    async cancelTask() {},
  });
  app.use('/.well-known/agent-card.json', agentCardHandler({ agentCardProvider: requestHandler }));
  app.use('/a2a', jsonRpcHandler({ requestHandler, userBuilder: UserBuilder.noAuthentication }));
}

// In the code of 1.0 everything has the shape of its protobuf: states and roles are numbers.
async function serve10(url) {
  const { AgentEvent, DefaultRequestHandler, InMemoryTaskStore } = await import('@a2a-js/sdk/server');
  const { agentCardHandler, jsonRpcHandler, UserBuilder } = await import('@a2a-js/sdk/server/express');
  const compat = version === 'both' ? { legacyCompat: { enabled: true } } : {};
  const card = {
    name: 'repeater', description: 'A peer.', version: '1.0.0', provider: undefined,
    supportedInterfaces: (version === 'both' ? ['1.0', '0.3'] : ['1.0'])
      .map((protocolVersion) => ({ url, protocolBinding: 'JSONRPC', tenant: '', protocolVersion })),
    capabilities: { streaming: false, pushNotifications: false, extensions: [], extendedAgentCard: false },
    securitySchemes: {}, securityRequirements: [], signatures: [], ...modes,
    skills: [{ ...skill, inputModes: [], outputModes: [], securityRequirements: [] }],
  };
  const agent = 2, working = 2, completed = 3;
  const status = (state) => ({ state, message: undefined, timestamp: new Date().toISOString() });
  const requestHandler = new DefaultRequestHandler(card, new InMemoryTaskStore(), {
    async execute({ taskId, contextId, userMessage }, bus) {
      const text = userMessage.parts.map((part) => part.content?.value ?? '').join('');
      const parts = [{ content: { $case: 'text', value: `You said: ${text}` }, metadata: undefined, filename: '', mediaType: 'text/plain' }];
      if (text.startsWith('message')) {
        bus.publish(AgentEvent.message({
          messageId: randomUUID(), contextId, taskId: '', role: agent, parts, metadata: undefined, extensions: [], referenceTaskIds: [],
        }));
      } else {
        bus.publish(AgentEvent.task({
          id: taskId, contextId, status: status(working), artifacts: [], history: [userMessage], metadata: undefined,
        }));
        await pause(text);
        bus.publish(AgentEvent.artifactUpdate({
          taskId, contextId, append: false, lastChunk: true, metadata: undefined,
          artifact: { artifactId: 'answer', name: '', description: '', metadata: undefined, extensions: [], parts },
        }));
        bus.publish(AgentEvent.statusUpdate({ taskId, contextId, status: status(completed), metadata: undefined }));
      }
      bus.finished();
    },
    async cancelTask() {},
  });
  app.use('/.well-known/agent-card.json', agentCardHandler({ agentCardProvider: requestHandler, ...compat }));
  app.use('/a2a', jsonRpcHandler({ requestHandler, userBuilder: UserBuilder.noAuthentication, ...compat }));
}
