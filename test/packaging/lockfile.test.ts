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

t.test('the lockfile has the optional packages of every platform, which npm ci requires', async (t) => {
  const missing = packages.flatMap(([path, { optionalDependencies = {} }]) =>
    Object.keys(optionalDependencies)
      .filter((name) => !names.has(name))
      .map((name) => `${name}, of ${path}`),
  )
  t.strictSame(missing, [])
})

t.test('every package is locked to one version and a checksum', async (t) => {
  t.strictSame(
    packages.filter(([, { version, integrity }]) => !version || !integrity).map(([path]) => path),
    [],
  )
})

t.test('package.json allows or forbids every install script, so that npm does not warn', async (t) => {
  for (const [path, { hasInstallScript, optional }] of packages) {
    if (!hasInstallScript) continue
    const name = path.slice(path.lastIndexOf('node_modules/') + 13)
    t.type(
      packageJson.allowScripts[name],
      'boolean',
      `${name}${optional ? ' (optional)' : ''} is allowed or forbidden`,
    )
  }
  for (const name of Object.keys(packageJson.allowScripts))
    t.ok(names.has(name), `${name} is still a dependency`)
})
