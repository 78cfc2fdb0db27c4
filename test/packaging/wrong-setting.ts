/** Fails at the same place as a build: `node wrong-setting.ts URL-OF-CONFIG`. */
const { loadConfig }: typeof import('../../src/config/config.ts') = await import(process.argv[2] ?? '')
loadConfig({ PORT: 'x' })
