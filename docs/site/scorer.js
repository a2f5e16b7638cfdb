/* How Sphinx sorts what a search finds: pages for users before decisions, papers and the list of changes. */
var Scorer = {
  score: (result) => (/adr\/|papers\/|CHANGELOG/.test(result[0]) ? result[4] - 20 : result[4]),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
