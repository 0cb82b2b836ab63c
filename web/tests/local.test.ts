/** Local reports and means of the conformance kit. */
import assert from "node:assert/strict";
import test from "node:test";
import * as ss from "./api.ts";
import { KIT } from "./kit.ts";

for (const one of KIT.local) {
  test(`local: ${one.name}`, () => {
    const mechanism = ss.readMechanism(one.mechanism);
    assert.equal(ss.mechanismJson(mechanism), one.mechanism);
    const off = Math.abs(ss.squaredError(mechanism) - one.squared_error.value);
    assert.ok(off <= one.squared_error.within, `squared error: off by ${off}`);
    const server = new ss.MeanAggregator(mechanism);
    for (const report of one.reports) {
      assert.equal(String(ss.readReport(ss.unhex(report.bytes), mechanism).seed), report.seed);
      server.add(ss.unhex(report.bytes));
    }
    assert.equal(server.count, one.mean.count);
    assert.equal(server.stepExponent, one.mean.step_exponent);
    assert.deepEqual(server.totals.map(String), one.mean.totals);
    assert.equal(ss.hex(server.toBytes()), one.mean.bytes);
    const read = ss.MeanAggregator.read(ss.unhex(one.mean.bytes));
    assert.equal(ss.hex(read.toBytes()), one.mean.bytes);
    const within = one.mean.within;
    read.mean().forEach((value, i) => assert.ok(Math.abs(value - one.mean.value[i]) <= within, `coordinate ${i}: ${value}`));
  });
}

for (const one of KIT.refused.filter((one) => one.kind.startsWith("Local"))) {
  test(`refused: ${one.kind}, ${one.name}`, () => {
    const data = ss.unhex(one.bytes);
    const read = () => (one.kind === "LocalMean" ? ss.MeanAggregator.read(data) : ss.readReport(data, ss.readMechanism(one.mechanism)));
    assert.throws(read, ss.WireFormatError);
  });
}
