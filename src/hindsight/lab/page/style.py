"""The style sheet of the page: Okabe and Ito's colours, light and dark, one column on a phone."""

CSS = """
:root { color-scheme: light dark; --ground: #ffffff; --card: #f6f7f9; --ink: #1a1d21; --soft: #55606b; --rule: #c9d0d7;
  --link: #00558a; --c0: #0072b2; --c1: #d55e00; --c2: #009e73; --c3: #cc79a7; --c4: #1a1d21;
  --c5: #e69f00; --c6: #56b4e9; }
@media (prefers-color-scheme: dark) { :root { --ground: #14171a; --card: #1d2125; --ink: #e8eaed; --soft: #a9b3bd;
  --rule: #434b53; --link: #8cc8f0; --c0: #56b4e9; --c1: #f0742a; --c2: #1fbf92; --c3: #dd94bc; --c4: #e8eaed;
  --c5: #e69f00; --c6: #f0e442; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--ink); font: 1rem/1.5 system-ui, sans-serif; }
header, main, footer { max-width: 72rem; margin: 0 auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; line-height: 1.2; margin: 1.5rem 0 .25rem; overflow-wrap: anywhere; }
h2 { font-size: 1.25rem; margin: 2.25rem 0 .5rem; overflow-wrap: anywhere; }
h3 { font-size: 1rem; margin: 1.5rem 0 .5rem; }
p, li { max-width: 46rem; overflow-wrap: anywhere; }
ul { padding-left: 1.2rem; } li { margin: .3rem 0; }
.soft, figcaption p, footer, .notes { color: var(--soft); font-size: .9rem; }
.skip { position: absolute; left: -99rem; } 
.skip:focus { left: 1rem; top: .5rem; background: var(--card); padding: .5rem; }
a { color: var(--link); }
:focus-visible { outline: 3px solid var(--c0); outline-offset: 2px; border-radius: 3px; }
.badge { display: inline-block; border: 1px solid currentColor; border-radius: 1rem; padding: 0 .55rem;
  font-size: .8rem; white-space: nowrap; } .badge.running { border-style: dashed; font-weight: 600; }
.conclusions { border-left: 4px solid var(--c0); background: var(--card); padding: .5rem 1rem .5rem 2rem; }
.scroll { overflow-x: auto; max-width: 100%; border: 1px solid var(--rule); border-radius: 6px; }
.scroll.tall { max-height: 20rem; overflow-y: auto; }
table { border-collapse: collapse; font-size: .9rem; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .4rem .6rem; border-top: 1px solid var(--rule); vertical-align: top; }
thead th { border-top: 0; background: var(--card); white-space: nowrap; }
td.number, th.number { text-align: right; white-space: nowrap; } th.row { font-weight: 600; min-width: 9rem; }
td .strip { vertical-align: middle; }
.figures { display: grid; gap: 1rem; grid-template-columns: repeat(auto-fill, minmax(min(100%, 21rem), 1fr)); }
.figures.two { grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr)); }
figure { margin: 0; background: var(--card); border: 1px solid var(--rule); border-radius: 6px; padding: .6rem .75rem;
  min-width: 0; }
figure.film { width: fit-content; max-width: 100%; } .film p { max-width: 360px; }
figure h4 { margin: 0; font-size: .95rem; } figcaption p { margin: .25rem 0; }
details { margin: .4rem 0; } summary { cursor: pointer; padding: .35rem 0; }
.legend { display: flex; flex-wrap: wrap; gap: .1rem 1rem; list-style: none; padding: 0;
  margin: .25rem 0; font-size: .85rem; }
.legend li { display: flex; align-items: center; gap: .4rem; margin: 0; min-width: 0; }
.plot { width: 100%; height: auto; display: block; font-size: 11px; }
.plot text { fill: var(--ink); } .plot .x-tick, .plot .x-axis, .plot .y-axis { text-anchor: middle; }
.plot .y-tick { text-anchor: end; } .plot .x-tick, .plot .y-tick { fill: var(--soft); }
.plot .x-axis, .plot .y-axis { font-size: 12px; } .rule { stroke: var(--rule); fill: none; }
.line { fill: none; stroke: var(--c); stroke-width: 2; stroke-linejoin: round; }
.band { fill: var(--c); opacity: .18; } .mark { fill: var(--c); stroke: var(--card); stroke-width: .8; }
.interval { stroke: var(--c); stroke-width: 6; opacity: .4; stroke-linecap: round; }
.estimate { stroke: var(--ink); stroke-width: 2; }
.swatch { width: 34px; height: 12px; flex: none; } th .swatch { display: block; margin: .2rem 0; }
.strip { width: 120px; height: 22px; display: inline-block; }
.c0 { --c: var(--c0); } .c1 { --c: var(--c1); } .c2 { --c: var(--c2); } .c3 { --c: var(--c3); } .c4 { --c: var(--c4); }
.c5 { --c: var(--c5); } .c6 { --c: var(--c6); }
video { width: 100%; max-width: 360px; height: auto; display: block; background: #000; border-radius: 4px; }
code { font-size: .9em; overflow-wrap: anywhere; } th code { overflow-wrap: normal; } 
footer { margin-top: 3rem; padding-bottom: 2rem; }
@media print { details { display: none; } }
"""
