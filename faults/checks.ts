/** Checks the state of a node after a fault. */
import { ADMIN, basicOf, type Client, type Json, LABEL, organizationOf } from './client.ts'
import type { Ledger } from './ledger.ts'

const dataOf = ({ data }: Json): Json => (typeof data === 'object' && data !== null ? { ...data } : {})

/** The commit of a branch, a tag or a new file. */
export const commitOf = ({ commit }: Json) =>
  typeof commit === 'object' && commit !== null && 'sha' in commit ? String(commit.sha) : ''

/** Counts the occurrences of each value. */
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

/**
 * Returns the positions of `main` in the log that are not in git's order. The log may omit a position, because a
 * recovery records only the branch's current commit. It may repeat a position that a recovery recorded first.
 */
function orderProblems(history: readonly Json[], inGit: readonly string[]): string[] {
  let last = -1
  return history.flatMap((event) => {
    const { refs } = dataOf(event)
    if (event.type !== 'RefsUpdated' || !Array.isArray(refs)) return []
    return refs.flatMap(({ ref, to }) => {
      if (ref !== 'refs/heads/main') return []
      const index = inGit.indexOf(String(to))
      if (index < last) return [`the log moves main to ${to}, which git did earlier, or never`]
      last = index
      return []
    })
  })
}

/** Describes each resource that is lost, duplicated, incomplete, or different in git and the log. */
export async function problemsOf(client: Client, ledger: Ledger, password: string): Promise<string[]> {
  const history = await client.history()
  return [
    ...(await issueProblems(client, ledger, history)),
    ...(await commentProblems(client, ledger)),
    // One after the other, because both fetch into the clone.
    ...(await refProblems(client, ledger, history)),
    ...(await pullProblems(client, ledger, history)),
    ...(await accountProblems(client, ledger, password)),
  ]
}

async function issueProblems(client: Client, ledger: Ledger, history: readonly Json[]): Promise<string[]> {
  const problems: string[] = []
  const issues = await client.list(`${client.path}/issues?type=issues&state=all`)
  const rows = new Map(issues.map((row) => [Number(row.number), row]))
  for (const [number, title] of ledger.issues) {
    if (rows.get(number)?.title !== title) problems.push(`lost: issue #${number} "${title}"`)
  }
  for (const number of ledger.labels) {
    const labels = rows.get(number)?.labels
    const isThere = Array.isArray(labels) && labels.some(({ name }) => name === LABEL)
    if (!isThere) problems.push(`lost: the label of issue #${number}`)
  }
  const opened = history
    .filter(({ type }) => type === 'IssueOpened' || type === 'PullRequestOpened')
    .map(dataOf)
  for (const [title, count] of counted(opened.map((data) => `"${data.title}"`))) {
    if (count > 1) problems.push(`done ${count} times: ${title}`)
  }
  for (const [number, count] of counted(opened.map(({ index }) => String(index)))) {
    if (count > 1) problems.push(`the number ${number} was given ${count} times`)
  }
  return problems
}

async function commentProblems(client: Client, ledger: Ledger): Promise<string[]> {
  const problems: string[] = []
  const comments = await client.list(`${client.path}/issues/comments`)
  const bodies = new Map(comments.map(({ id, body }) => [Number(id), String(body)]))
  for (const [id, body] of ledger.comments) {
    if (bodies.get(id) !== body) problems.push(`lost: comment ${id} "${body}"`)
  }
  for (const [body, count] of counted([...bodies.values()])) {
    if (count > 1) problems.push(`done ${count} times: "${body}"`)
  }
  const assets = comments.flatMap(({ assets }) => (Array.isArray(assets) ? assets : []))
  for (const [name, count] of counted(assets.map((asset) => String(asset.name)))) {
    if (count > 1) problems.push(`attached ${count} times: ${name}`)
  }
  for (const [name, { content, path }] of ledger.files) {
    if (!assets.some((asset) => asset.name === name)) problems.push(`lost: the attachment ${name}`)
    else if ((await client.download(path)) !== content) problems.push(`lost: the content of ${name}`)
  }
  return problems
}

async function refProblems(client: Client, ledger: Ledger, history: readonly Json[]): Promise<string[]> {
  const main = await client.mainHistory()
  const problems = orderProblems(
    history,
    main.map(({ sha }) => sha),
  )
  const branches = await client.branches()
  for (const [branch, sha] of ledger.pushes) {
    if (branches.get(branch) !== sha) problems.push(`lost: the push of ${branch}`)
  }
  for (const branch of ledger.deletedBranches) {
    if (branches.has(branch)) problems.push(`${branch} is still there after a merge that deletes it`)
  }
  const tags = await client.list(`${client.path}/tags`)
  for (const [tag, sha] of ledger.tags) {
    const found = tags.filter(({ name }) => name === tag).map(commitOf)
    if (found.join() !== sha)
      problems.push(`the tag ${tag} is of ${found.join() || 'nothing'}, not of ${sha}`)
  }
  const logged = loggedBranches(history)
  for (const branch of new Set([...branches.keys(), ...logged.keys()])) {
    const [inGit, inLog] = [branches.get(branch), logged.get(branch)]
    if (inGit !== inLog) problems.push(`${branch} is at ${inGit} in git, and at ${inLog} in the log`)
  }
  return problems
}

async function pullProblems(client: Client, ledger: Ledger, history: readonly Json[]): Promise<string[]> {
  const problems: string[] = []
  const pulls = await client.list(`${client.path}/pulls?state=all`)
  const main = await client.mainHistory()
  const shown = new Map(pulls.map((pull) => [Number(pull.number), pull]))
  for (const [number, branch] of ledger.pulls) {
    if (shown.get(number)?.title !== branch) problems.push(`lost: pull request #${number} of ${branch}`)
  }
  for (const number of [...ledger.merges, ...ledger.schedules]) {
    if (shown.get(number)?.merged !== true) problems.push(`lost: the merge of pull request #${number}`)
  }
  const outcomes = counted(
    history.flatMap((event) => (event.type === 'PullRequestMerged' ? [String(dataOf(event).head)] : [])),
  )
  const inMain = counted(main.flatMap(({ merged }) => merged ?? []))
  for (const pull of pulls) {
    const head =
      typeof pull.head === 'object' && pull.head !== null && 'sha' in pull.head ? pull.head.sha : ''
    const wanted = pull.merged === true ? 1 : 0
    for (const [where, found] of [
      ['main', inMain.get(String(head)) ?? 0],
      ['the log', outcomes.get(String(head)) ?? 0],
    ] as const) {
      if (found !== wanted) {
        problems.push(`pull request #${pull.number} is ${found} times in ${where}, not ${wanted}`)
      }
    }
  }
  return problems
}

async function accountProblems(client: Client, ledger: Ledger, password: string): Promise<string[]> {
  const problems: string[] = []
  const [own, forks] = await Promise.all([
    client.list(`/users/${ADMIN}/repos`),
    client.list(`/orgs/${organizationOf(client)}/repos`),
  ])
  const names = counted([...own, ...forks].map(({ full_name }) => String(full_name)))
  for (const name of ledger.repositories) {
    if (!names.has(name)) problems.push(`lost: the repository ${name}`)
  }
  for (const name of ledger.deletedRepositories) {
    if (names.has(name)) problems.push(`${name} is there, but it was deleted`)
  }
  for (const [name, count] of names) if (count > 1) problems.push(`there are ${count} repositories ${name}`)
  const tokens = await client.list(`/users/${ADMIN}/tokens`, { authorization: basicOf(password) })
  const tokenNames = counted(tokens.map(({ name }) => String(name)))
  for (const [name, token] of ledger.tokens) {
    const count = tokenNames.get(name) ?? 0
    if (count !== 1) problems.push(`the ${name} is there ${count} times`)
    const answer = await client.request('GET', '/user', { authorization: `token ${token}` })
    if (answer?.status !== 200) problems.push(`lost: the ${name}`)
  }
  return problems
}
