/** What must hold after each fault. */
import type { Client, Json } from './client.ts'
import type { Ledger } from './load.ts'

const dataOf = ({ data }: Json): Json => (typeof data === 'object' && data !== null ? { ...data } : {})

/** How often each value occurs. */
function counted(values: readonly string[]): Map<string, number> {
  const counts = new Map<string, number>()
  for (const value of values) counts.set(value, (counts.get(value) ?? 0) + 1)
  return counts
}

/** The branches as the log has them. */
function loggedBranches(history: readonly Json[]): Map<string, string> {
  const branches = new Map<string, string>()
  for (const event of history) {
    const { refs } = dataOf(event)
    if (event.type !== 'RefsUpdated' || !Array.isArray(refs)) continue
    for (const { ref, to } of refs) {
      if (!String(ref).startsWith('refs/heads/')) continue
      const branch = String(ref).slice('refs/heads/'.length)
      if (to === null) branches.delete(branch)
      else branches.set(branch, String(to))
    }
  }
  return branches
}

/** Names everything that is lost, done twice or half, or not the same in git and the log. Empty when all is well. */
export async function problemsOf(client: Client, ledger: Ledger): Promise<string[]> {
  const problems: string[] = []
  const [issues, pulls, history, branches, heads] = await Promise.all([
    client.list('/issues?type=issues&state=all'),
    client.list('/pulls?state=all'),
    client.history(),
    client.branches(),
    client.mergedHeads(),
  ])

  const titles = new Map(issues.map(({ number, title }) => [number, title]))
  for (const [number, title] of ledger.issues) {
    if (titles.get(number) !== title) problems.push(`lost: issue #${number} "${title}"`)
  }
  const opened = history.flatMap((event) =>
    event.type === 'IssueOpened' || event.type === 'PullRequestOpened' ? [String(dataOf(event).title)] : [],
  )
  for (const [title, count] of counted(opened))
    if (count > 1) problems.push(`done ${count} times: "${title}"`)

  for (const [branch, sha] of ledger.pushes) {
    if (branches.get(branch) !== sha) problems.push(`lost: the push of ${branch}`)
  }
  const logged = loggedBranches(history)
  for (const branch of new Set([...branches.keys(), ...logged.keys()])) {
    const [inGit, inLog] = [branches.get(branch), logged.get(branch)]
    if (inGit !== inLog) problems.push(`${branch} is at ${inGit} in git, and at ${inLog} in the log`)
  }

  const shown = new Map(pulls.map((pull) => [Number(pull.number), pull]))
  for (const [number, branch] of ledger.pulls) {
    if (shown.get(number)?.title !== branch) problems.push(`lost: pull request #${number} of ${branch}`)
  }
  for (const number of ledger.merges) {
    if (shown.get(number)?.merged !== true) problems.push(`lost: the merge of pull request #${number}`)
  }
  const outcomes = counted(
    history.flatMap((event) => (event.type === 'PullRequestMerged' ? [String(dataOf(event).head)] : [])),
  )
  const inMain = counted(heads)
  for (const pull of pulls) {
    const head = ledger.pushes.get(String(pull.title)) ?? ''
    const wanted = pull.merged === true ? 1 : 0
    for (const [where, found] of [
      ['main', inMain.get(head) ?? 0],
      ['the log', outcomes.get(head) ?? 0],
    ] as const) {
      if (found !== wanted)
        problems.push(`pull request #${pull.number} is ${found} times in ${where}, not ${wanted}`)
    }
  }
  return problems
}
