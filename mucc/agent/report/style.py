"""How a report looks, and the little that it does beyond: everything can be read without the script."""

RULES = """
:root { color-scheme: light dark; --fg: #1b1f24; --dim: #5c6670; --bg: #fff; --box: #f5f6f8;
  --rule: #d9dde2;
  --add: #dff5e3; --del: #fde4e1; --good: #1a7f37; --bad: #c62828; --warn: #9a6700; --link: #0b5cad;
  --c0: #1f6fd6; --c1: #c2458b; --c2: #d9822b; --c3: #8a4fbf; --c4: #1a9a8a; --c5: #8a8f98; --c6: #a9b0b8;
  --c7: #c62828; }
@media (prefers-color-scheme: dark) { :root { --fg: #e4e7eb; --dim: #9aa4af; --bg: #14171b;
  --box: #1d2126; --rule: #343a42;
  --add: #12351f; --del: #45201d; --good: #4cc26a; --bad: #ff7b72; --warn: #d9a934; --link: #6cb2ff;
  --c0: #5aa2f5; --c1: #e57ab3; --c2: #f0a355; --c3: #b68ae0; --c4: #43c6b4; --c5: #9aa1ab; --c6: #5d6670;
  --c7: #ff7b72; } }
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body { margin: 0 auto; padding: 1rem; max-width: 76rem; background: var(--bg); color: var(--fg);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; margin: 0 0 .2rem; line-height: 1.25; }
h2 { font-size: 1.2rem; margin: 2.2rem 0 .6rem; padding-bottom: .2rem;
  border-bottom: 1px solid var(--rule); }
h3 { font-size: 1.02rem; margin: 1.3rem 0 .4rem; }
h4 { font-size: .92rem; margin: .8rem 0 .2rem; }
a { color: var(--link); }
.quiet, .legend, figcaption, dt, small { color: var(--dim); }
.good { color: var(--good); } .bad { color: var(--bad); } .warn { color: var(--warn); }
.notice { border-left: 4px solid var(--warn); background: var(--box); padding: .5rem .8rem;
  margin: .8rem 0; }
.tiles { display: flex; flex-wrap: wrap; gap: .6rem; margin: 1rem 0; padding: 0; }
.tile { background: var(--box); border: 1px solid var(--rule); border-radius: 6px; padding: .45rem .8rem;
  min-width: 8rem; }
.tile b { display: block; font-size: 1.35rem; font-variant-numeric: tabular-nums; }
.tile span { color: var(--dim); font-size: .86rem; }
.wide { overflow-x: auto; max-width: 100%; }
table { border-collapse: collapse; font-size: .88rem; margin: .4rem 0; }
th, td { text-align: left; padding: .22rem .55rem; border-bottom: 1px solid var(--rule);
  vertical-align: top; overflow-wrap: break-word; }
th { color: var(--dim); font-weight: 600; white-space: nowrap; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap;
  overflow-wrap: normal; }
td.w { white-space: nowrap; overflow-wrap: normal; }
td.why { min-width: 14rem; }
tbody tr:hover { background: var(--box); }
tr.sum td { font-weight: 600; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .1rem 1rem; margin: .5rem 0; }
dd { margin: 0; min-width: 0; }
pre, code { font: 12.5px/1.45 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
pre { background: var(--box); border: 1px solid var(--rule); border-radius: 5px; padding: .5rem .7rem;
  overflow: auto;
  max-height: 36rem; margin: .4rem 0; overflow-wrap: normal; }
pre span { display: block; min-width: max-content; }
pre .a { background: var(--add); } pre .r { background: var(--del); } pre .q { color: var(--dim); }
details { margin: .25rem 0; }
summary { cursor: pointer; padding: .15rem 0; }
details.attempt { border: 1px solid var(--rule); border-radius: 5px; padding: .1rem .6rem; }
details.attempt[open] { background: color-mix(in srgb, var(--box) 50%, transparent);
  padding-bottom: .5rem; }
details.attempt > summary { display: flex; flex-wrap: wrap; gap: 0 .7rem; }
details.attempt > summary::before { content: "\\25b8"; width: .7rem; color: var(--dim); }
details.attempt[open] > summary::before { content: "\\25be"; }
h2 a.up { font-size: .8rem; font-weight: 400; float: right; }
summary .num { min-width: 2.6rem; color: var(--dim); } summary .what { flex: 1 1 14rem; min-width: 0; }
summary .ms { font-variant-numeric: tabular-nums; min-width: 5.6rem; text-align: right; }
summary .state { min-width: 6.5rem; }
.best { font-weight: 600; }
.charts { display: flex; flex-wrap: wrap; gap: .4rem 1.4rem; }
figure { margin: .5rem 0; flex: 1 1 20rem; max-width: 34rem; min-width: 0; }
figcaption { font-size: .88rem; }
svg { width: 100%; height: auto; display: block; }
svg text { fill: var(--dim); font: 12px system-ui, sans-serif; }
svg .grid { stroke: var(--rule); stroke-width: .7; }
svg .l { fill: none; stroke-width: 1.4; stroke-linejoin: round; } svg .thick { stroke-width: 2.4; }
  svg .thin { stroke-width: .9; opacity: .75; }
svg .dash { stroke-dasharray: 5 4; }
svg .d { stroke: var(--bg); stroke-width: .6; }
.legend { font-size: .82rem; margin: .2rem 0 0; display: flex;
  flex-wrap: wrap; } .legend span { white-space: nowrap; margin-right: .7rem; }
.key { display: inline-block; width: .75rem; height: .75rem; border-radius: 2px; margin-right: .3rem;
  vertical-align: -1px; }
.prose { border-left: 3px solid var(--rule); padding-left: .8rem; }
.prose h1, .prose h2, .prose h3, .prose h4 { font-size: 1rem; border: 0; margin: .7rem 0 .2rem; }
.tools { display: none; gap: .5rem; flex-wrap: wrap; margin: .5rem 0; }
.tools button, .tools select { font: inherit; color: inherit; background: var(--box);
  border: 1px solid var(--rule);
  border-radius: 5px; padding: .15rem .6rem; cursor: pointer; }
.scripted .tools { display: flex; }
.scripted th[data-sort] { cursor: pointer; }
@media (max-width: 40rem) { body { padding: .7rem; } dl { grid-template-columns: 1fr; }
  dd { margin-bottom: .3rem; }
  summary .ms { text-align: left; } .tile { flex: 1 1 40%; min-width: 0; } }
@media print { body { max-width: none; font-size: 11px; } .tools { display: none !important; }
  pre { max-height: none; white-space: pre-wrap; }
  .wide { overflow: visible; } h2, h3 { break-after: avoid; }
  figure, details.attempt > summary { break-inside: avoid; } a { color: inherit; } }
"""

COLOURS = "".join(
    f".l.c{n} {{ stroke: var(--c{n}); }} .d.c{n}, .b.c{n} {{ fill: var(--c{n}); }}"
    f" .key.c{n} {{ background: var(--c{n}); }}\n"
    for n in range(8)
)
"""What is drawn in a colour: lines, dots, bars, and their keys in a legend."""

STYLE = RULES + COLOURS

SCRIPT = """
document.documentElement.classList.add('scripted');
for (const box of document.querySelectorAll('.tools')) {
  const own = () => box.parentElement.querySelectorAll('details.attempt');
  box.addEventListener('click', (event) => {
    const act = event.target.dataset.act;
    if (act) for (const one of own()) if (!one.hidden) one.open = act === 'open';
  });
  box.addEventListener('change', (event) => {
    const wanted = event.target.value;
    for (const one of own()) one.hidden = wanted !== '' && one.dataset.status !== wanted;
  });
}
for (const head of document.querySelectorAll('th[data-sort]')) {
  head.addEventListener('click', () => {
    const body = head.closest('table').tBodies[0], at = head.cellIndex;
    const down = head.dataset.sort !== 'down';
    head.dataset.sort = down ? 'down' : 'up';
    const key = (row) => { const text = row.cells[at].textContent, number = parseFloat(text.replace('(', ''));
      return Number.isNaN(number) ? text : number; };
    const less = (a, b) => a < b ? -1 : a > b ? 1 : 0;
    const order = (a, b) => typeof a === typeof b ? less(a, b) : typeof a === 'number' ? -1 : 1;
    const rows = [...body.rows].filter((row) => !row.classList.contains('sum'));
    rows.sort((a, b) => order(key(a), key(b)) * (down ? 1 : -1));
    rows.forEach((row, i) => body.insertBefore(row, body.rows[i]));
  });
}
const reveal = () => {
  const found = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  for (let one = found; one; one = one.parentElement) if (one.tagName === 'DETAILS') one.open = true;
  if (found) found.scrollIntoView();
};
addEventListener('hashchange', reveal);
reveal();
"""
