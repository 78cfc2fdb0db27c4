import { readFileSync } from 'node:fs'
import t from 'tap'

interface Locked {
  version?: string
  integrity?: string
  optional?: boolean
  hasInstallScript?: boolean
  optionalDependencies?: Record<string, string>
}

interface Package {
  allowScripts: Record<string, boolean>
}

const read = (name: string) => readFileSync(new URL(`../../${name}`, import.meta.url), 'utf8')
const lockfile: { packages: Record<string, Locked> } = JSON.parse(read('package-lock.json'))
const packageJson: Package = JSON.parse(read('package.json'))

const packages = Object.entries(lockfile.packages).filter(([path]) => path !== '')
const names = new Set(packages.map(([path]) => path.slice(path.lastIndexOf('node_modules/') + 13)))

t.test(
  'the lockfile names the optional packages of every platform: npm ci refuses one that does not',
  async (t) => {
    const missing = packages.flatMap(([path, { optionalDependencies = {} }]) =>
      Object.keys(optionalDependencies)
        .filter((name) => !names.has(name))
        .map((name) => `${name}, of ${path}`),
    )
    t.strictSame(missing, [])
  },
)

t.test('every package is locked to one version with a known content', async (t) => {
  t.strictSame(
    packages.filter(([, { version, integrity }]) => !version || !integrity).map(([path]) => path),
    [],
  )
})

t.test('package.json decides on every install script, so that npm has none to warn of', async (t) => {
  for (const [path, { hasInstallScript, optional }] of packages) {
    if (!hasInstallScript) continue
    const name = path.slice(path.lastIndexOf('node_modules/') + 13)
    t.type(packageJson.allowScripts[name], 'boolean', `${name}${optional ? ' (optional)' : ''} is decided on`)
  }
  for (const name of Object.keys(packageJson.allowScripts)) t.ok(names.has(name), `${name} is still there`)
})
