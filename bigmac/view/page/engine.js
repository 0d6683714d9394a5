// Simulates what the controls say (bigmac/controls/answer.h): the same C++ as WebAssembly, in a worker so that the
// page does not freeze; or else the server that the page came from.

// Runs in the worker, so it may use nothing of the page. An instance a step: what a large one took is given back.
function engineWorker() {
  self.onmessage = ({data: {module, text}}) => {
    try {
      let exports = null;
      const system = {
        environ_sizes_get: (count, size) => {
          const view = new DataView(exports.memory.buffer);
          view.setUint32(count, 0, true);
          view.setUint32(size, 0, true);
          return 0;
        },
        fd_write: () => 8,
        proc_exit: (code) => {
          throw new Error("it ended with " + code);
        },
      };
      const wanted = {};
      for (const {module: from, name} of WebAssembly.Module.imports(module)) {
        wanted[from] = wanted[from] || {};
        wanted[from][name] = system[name] || (() => 0);
      }
      exports = new WebAssembly.Instance(module, wanted).exports;
      exports._initialize();
      const request = new TextEncoder().encode(text), begun = performance.now();
      const exchange = exports.bigmac_begin(request.length);
      const held = () => new Uint8Array(exports.memory.buffer, exports.bigmac_data(exchange), exports.bigmac_size(exchange));
      held().set(request);
      const good = exports.bigmac_run(exchange) === 1, bytes = held().slice(), ms = performance.now() - begun;
      self.postMessage(good ? {bytes, ms} : {error: new TextDecoder().decode(bytes)}, [bytes.buffer]);
    } catch (error) {
      self.postMessage({error: `the simulator failed (${error.message}); take a smaller step`});
    }
  };
}

function workerEngine(module) {
  const source = URL.createObjectURL(new Blob([`(${engineWorker})()`], {type: "text/javascript"}));
  let worker = null;
  return {
    simulate: (text) => new Promise((resolve, reject) => {
      worker = worker || new Worker(source);
      worker.onmessage = ({data}) => data.error === undefined ? resolve(data) : reject(new Error(data.error));
      worker.onerror = (event) => reject(new Error("the simulator does not run here: " + (event.message || "no worker")));
      worker.postMessage({module, text});
    }),
    cancel: () => {
      if (worker) worker.terminate();
      worker = null;
    },
  };
}

function serverEngine(ask) {
  return {
    simulate: async (text) => {
      const begun = performance.now();
      const response = await ask(text).catch(() => {
        throw new Error("the server of this page does not answer: is `bigmac view --serve` still running?");
      });
      if (!response.ok) throw new Error((await response.text()).trim());
      return {bytes: new Uint8Array(await response.arrayBuffer()), ms: performance.now() - begun};
    },
    cancel: () => {},
  };
}

async function makeEngine() {
  const script = byId("controls-engine"), server = window.bigmacServer;
  let why = "this browser has WebAssembly switched off";
  if (script && typeof WebAssembly === "object") {
    try {
      return workerEngine(await WebAssembly.compile(await unpacked(script.textContent)));
    } catch (error) {
      why = "this browser cannot run them (" + error.message + ")";
    }
  }
  if (server) return serverEngine(server);
  throw new Error(`The controls simulate with WebAssembly, and ${why}. \`bigmac view --serve\` simulates outside the browser.`);
}

// The answer in its parts.
function readAnswer({bytes, ms}) {
  const size = new DataView(bytes.buffer, bytes.byteOffset).getUint32(0, true);
  return {...JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + size))), columns: bytes.subarray(4 + size), ms};
}
