// The controls' panel: figures, what is wrong, sliders, the command.

function fillControls() {
  controls.form = controlForm((at) => partOf(controls.values, at), controlsMoved);
  const button = (id, text, act, title) => element("button", {type: "button", id, onclick: act, title}, text);
  const notes = controls.leftOut.length === 0 ? null : element("details", {},
    element("summary", {}, "What of the step the controls do not have"),
    element("ul", {class: "findings"}, ...controls.leftOut.map((text) => element("li", {}, text))));
  byId("controls").replaceChildren(
    element("div", {class: "result"},
      element("dl", {id: "controls-figures", class: "figures", "aria-live": "polite"}),
      element("p", {id: "controls-problem", class: "problem", role: "alert", hidden: true}),
      element("div", {class: "actions"},
        button("controls-keep", "Keep as baseline", keepBaseline, "What you simulate from now on stands beside the present step"),
        button("controls-drop", "Drop baseline", dropBaseline),
        button("controls-reset", "Reset", resetControls, "Back to the step that this page began with"),
        element("span", {class: "simulating", role: "status"}, "simulating…"))),
    element("form", {class: "sliders", onsubmit: (event) => event.preventDefault()}, ...controls.form.groups),
    element("div", {class: "command"}, element("code", {id: "controls-command", tabindex: "0", "aria-label": "The same on the command line"}),
      button("controls-copy", "Copy", copyCommand)),
    ...(notes ? [notes] : []));
  controls.form.show();
  fillReport();
}

const mostOf = (report, value) => Math.max(...report.ranks.map(value));

function heldText(report) {
  const units = Object.keys(report.ranks[0].peak_units).map((name) =>
    `${plain(mostOf(report, (rank) => rank.peak_units[name] || 0), 3)} ${name} units`);
  return [...units, `${plain(mostOf(report, (rank) => rank.peak_in_flight), 3)} LLM chunks`].join(", ");
}

function fillReport() {
  const {report, baselineReport: base, baseline} = controls;
  const figure = (name, title, text, value, kept, points) => {
    const shown = element("dd", {}, text);
    if (base) shown.append(" ", points ? element("small", {}, pointsText(value - kept)) :
      element("small", {class: value > kept * 1.0005 ? "worse" : "better"}, differenceText(value, kept)));
    return element("div", {title}, element("dt", {}, name), shown);
  };
  const ratio = (value) => value === undefined ? "–" : value.toFixed(3);
  byId("controls-figures").replaceChildren(...(!report ? [] : [
    figure("step", "the whole step, in the unit of its costs", plain(report.makespan, 5), report.makespan, base?.makespan),
    figure("of the ideal", "against the plain LLM step + (encoder + generator work) / P, which unlimited memory would give", ratio(report.ratio_to_ideal),
      report.ratio_to_ideal, base?.ratio_to_ideal),
    figure("of the bound", "against max(total work / P, longest chain): no schedule is faster", ratio(report.ratio_to_lower_bound),
      report.ratio_to_lower_bound, base?.ratio_to_lower_bound),
    figure("idle / total", "time outside operators, of all ranks' time", percentText(report.idle_over_total), report.idle_over_total,
      base?.idle_over_total, true),
    element("div", {class: "held", title: "the most that one rank holds at once: units of P microbatches, and forwards of LLM chunks whose backward is still to come"},
      element("dt", {}, "held at most"), element("dd", {}, heldText(report), base ? element("small", {}, `baseline: ${heldText(base)}`) : null)),
  ]));
  byId("controls-command").textContent = controls.command;
  byId("controls-keep").textContent = baseline ? "Keep this instead" : "Keep as baseline";
  byId("controls-drop").hidden = !baseline;
}

// The last picture stays.
function sayProblem(text) {
  controls.problem = text;
  byId("controls-problem").textContent = text;
  byId("controls-problem").hidden = text === "";
  byId("controls").classList.toggle("stale", text !== "");
}
