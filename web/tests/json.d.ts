declare module "*.json" {
  const cases: Record<string, any>[];
  export default cases;
}
