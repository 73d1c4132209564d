// An ordinary script on one of the HTTP libraries of Node.js; on node fetch it
// speaks the Model Context Protocol through the SDK of that. It reads from standard
// input what to send and to whom, as TestClassify writes it, and prints nothing.
import http from 'node:http';
import { randomUUID } from 'node:crypto';
import { text } from 'node:stream/consumers';

const { identity: who, tasks } = JSON.parse(await text(process.stdin));

const newId = {
	'from-0': (n) => n,
	'from-1': (n) => n + 1,
	uuid: () => randomUUID(),
	hex: () => randomUUID().replaceAll('-', ''),
};

// post returns the session that an answer names.
const clients = {
	async axios() {
		const { default: axios } = await import('axios');
		return {
			get: (url) => axios.get(url),
			post: async (url, headers, body) => (await axios.post(url, body, { headers })).headers['mcp-session-id'],
		};
	},
	async got() {
		const { got } = await import('got');
		return {
			get: (url) => got(url),
			post: async (url, headers, json) => (await got.post(url, { json, headers })).headers['mcp-session-id'],
		};
	},
	async 'node fetch'() {
		const read = async (answer) => {
			await answer.text();
			return answer.headers.get('mcp-session-id');
		};
		return {
			get: async (url) => read(await fetch(url)),
			post: async (url, headers, body) => read(await fetch(url, {
				method: 'POST', headers: { ...headers, 'Content-Type': 'application/json' }, body: JSON.stringify(body),
			})),
		};
	},
};

function conversation(client, url) {
	let count = 0;
	return (headers, method, params, notification) => {
		const values = { jsonrpc: '2.0', method, params };
		if (!notification) values.id = newId[who.rpcIds](count++);
		const frame = {};
		for (const key of who.frameOrder) if (values[key] !== undefined) frame[key] = values[key];
		return client.post(url, headers, frame);
	};
}

async function askA2A(client, task) {
	const call = conversation(client, task.url);
	const messageId = newId[who.messageIds](0);
	if (task.dialect === '1.0') {
		await call({ 'A2A-Version': '1.0' }, 'SendMessage', {
			message: { messageId, role: 'ROLE_USER', parts: [{ text: task.text }] },
			configuration: { acceptedOutputModes: ['text/plain'] },
		});
		return;
	}
	await call({}, 'message/send', {
		message: { kind: 'message', messageId, role: 'user', parts: [{ kind: 'text', text: task.text }] },
		configuration: { acceptedOutputModes: ['text/plain'], blocking: true },
	});
}

async function askMCP(client, task) {
	const call = conversation(client, task.url);
	const headers = { Accept: 'application/json, text/event-stream' };
	const session = await call(headers, 'initialize', {
		protocolVersion: who.mcpVersion, capabilities: {}, clientInfo: who.clientInfo,
	});
	headers['Mcp-Protocol-Version'] = who.mcpVersion;
	if (session) headers['Mcp-Session-Id'] = session;
	await call(headers, 'notifications/initialized', undefined, true);
	await call(headers, 'tools/list');
	await call(headers, 'tools/call', { name: task.tool, arguments: task.arguments });
}

async function askBySDK(task) {
	const { Client } = await import('@modelcontextprotocol/sdk/client/index.js');
	const { StreamableHTTPClientTransport } = await import('@modelcontextprotocol/sdk/client/streamableHttp.js');
	const transport = new StreamableHTTPClientTransport(new URL(task.url));
	const send = transport.send.bind(transport);
	transport.send = (message, options) => {
		// What the SDK asked for when it was of that version.
		if (message.method === 'initialize') message.params.protocolVersion = who.mcpVersion;
		return send(message, options);
	};
	const client = new Client(who.clientInfo);
	await client.connect(transport);
	await client.listTools();
	await client.callTool({ name: task.tool, arguments: task.arguments });
	await client.close();
}

const client = await clients[who.library]();
// As in a script of its own, no connection is left over from another task: every
// task has a port of its own.
for (const task of tasks) {
	if (task.kind === 'card') await client.get(task.url);
	else if (task.kind === 'a2a') await askA2A(client, task);
	else if (who.library === 'node fetch') await askBySDK(task);
	else await askMCP(client, task);
}
http.globalAgent.destroy();
process.exit(0);
