// Run queries, one a line on standard input, with the search worker and index of a built site:
//
//     node search_site.mjs build/site < queries.txt
//
// Prints a JSON object: the locations of the results of each query, best first.

import { readFileSync, readdirSync } from "node:fs";
import vm from "node:vm";

const site = process.argv[2];
const workers = `${site}/assets/javascripts/workers`;
const worker = readdirSync(workers).find((name) => name.startsWith("search."));

const waiting = [];
const self = { postMessage: (message) => waiting.shift()(message) };
vm.runInNewContext(readFileSync(`${workers}/${worker}`, "utf8"), { self });

const SETUP = 0;
const QUERY = 2;

function send(type, data) {
  return new Promise((resolve) => {
    waiting.push(resolve);
    self.onmessage({ data: { type, data } });
  });
}

const index = JSON.parse(readFileSync(`${site}/search.json`, "utf8"));
await send(SETUP, index);

const found = {};
for (const input of readFileSync(0, "utf8").split("\n").filter(Boolean)) {
  const filter = {
    input: { type: "operator", data: { operator: "and", operands: [] } },
    aggregation: { input: [] },
  };
  const { data } = await send(QUERY, { input, filter });
  found[input] = data.items.map(({ id }) => index.items[id].location);
}
console.log(JSON.stringify(found));
